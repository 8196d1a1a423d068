package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// commandDeadline bounds one kubectl command.
const commandDeadline = 2 * time.Minute

// shell runs kubectl and shows each command before its output.
type shell struct{ plane *cluster.Cluster }

// kubectl runs a command as a user would type it and returns what it printed, warnings included.
func (s shell) kubectl(ctx context.Context, args ...string) (string, error) {
	fmt.Printf("\n$ kubectl %s\n", strings.Join(args, " "))
	return s.run(ctx, "", args...)
}

// apply applies a manifest that is shown in full.
func (s shell) apply(ctx context.Context, manifest string) error {
	fmt.Printf("\n$ kubectl apply -f - <<EOF\n%sEOF\n", manifest)
	_, err := s.run(ctx, manifest, "apply", "-f", "-")
	return err
}

func (s shell) run(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.plane.Program("kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.plane.Kubeconfig())
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	fmt.Print(string(out))
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w", args[0], err)
	}
	return string(bytes.TrimSpace(out)), nil
}

func heading(format string, args ...any) {
	fmt.Printf("\n── "+format+" ──\n", args...)
}

// holds prints a fact that has just been checked.
func holds(format string, args ...any) {
	fmt.Printf("✓ "+format+"\n", args...)
}
