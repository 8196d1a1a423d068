package install

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/pvc-pruner/pvc-pruner"

// moduleRoot returns the folder of this repository.
func moduleRoot(ctx context.Context) (string, error) {
	root, err := run(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", module)
	return strings.TrimSpace(root), err
}

// BuildPlugin compiles the plugin of kubectl into a folder.
func BuildPlugin(ctx context.Context, folder string) error {
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	_, err = build(ctx, root, folder, "kubectl-pvc_pruner", "")
	return err
}

// build compiles a program into a folder and returns its path.
func build(ctx context.Context, root, folder, name, tags string) (string, error) {
	program := filepath.Join(folder, name)
	_, err := run(ctx, root, "go", "build", "-tags", tags, "-o", program, "./cmd/"+name)
	return program, err
}

// run returns what a program printed. The error of a failed one carries its error output.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}
