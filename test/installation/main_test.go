package installation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/node"
)

const (
	imageName = "localhost/pvc-pruner"
	imageTag  = "test"
	root      = "../.."
)

// theNode is shared: one runs at a time on a machine, and each test removes what it installs.
var theNode *node.Node

func TestMain(m *testing.M) {
	if lacking := node.Missing(); lacking != "" && os.Getenv("INSTALLATION") != "required" {
		fmt.Println("installation: skipped, a node cannot be started here:", lacking)
		return
	}
	os.Exit(withNode(m))
}

func withNode(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var err error
	if theNode, err = node.Start(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := theNode.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the node:", err)
		}
	}()
	if err := loadImage(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// loadImage builds the Dockerfile and makes the image known to the node.
func loadImage(ctx context.Context) error {
	archive := filepath.Join(theNode.Dir(), "pvc-pruner.tar")
	out, err := exec.CommandContext(ctx, filepath.Join(root, "test", "image", "build.sh"), archive, imageName+":"+imageTag).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build the image: %w\n%s", err, out)
	}
	return theNode.Load(ctx, archive)
}

// command runs a program of the control plane as the admin, and returns what it prints on both streams.
func command(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, theNode.Program(program), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+theNode.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually tries until it succeeds, or the time is over.
func eventually(t *testing.T, within time.Duration, try func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %v", within, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
