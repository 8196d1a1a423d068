package cluster_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

func TestNothingOutlivesAKilledOwner(t *testing.T) {
	t.Parallel()
	programs, err := builder.Build(t.Context(), builder.ControlPlane, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), "CLUSTER_TEST_VICTIM="+programs)
	owner.Stderr = os.Stderr
	output, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the owner did not start a cluster: %v", err)
	}
	dir := strings.TrimSpace(line)
	pids := recordedPIDs(t, dir)
	folders := readLines(t, filepath.Join(dir, "live", "volumes"))
	if len(pids) < 5 || len(folders) != 1 {
		t.Fatalf("recorded: PIDs %v, volumes %v", pids, folders)
	}

	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // it was killed: that is its error

	awaitGone(t, pids, append(folders, dir)...)
}

// awaitGone fails if a process or a path is still there after a few seconds.
func awaitGone(t *testing.T, pids []string, paths ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		left := existing(pids, paths)
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("left behind: %v", left)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func existing(pids, paths []string) []string {
	var left []string
	for _, pid := range pids {
		if alive(pid) {
			left = append(left, "PID "+pid)
		}
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, path)
		}
	}
	return left
}

// alive says whether a process runs; a zombie, which only waits for its parent, does not.
func alive(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

// recordedPIDs returns the PIDs of the cluster's programs that run now.
func recordedPIDs(t *testing.T, dir string) []string {
	t.Helper()
	var pids []string
	for _, line := range readLines(t, filepath.Join(dir, "live", "pids")) {
		pid, _, _ := strings.Cut(line, " ")
		if alive(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' })
}
