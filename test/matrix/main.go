package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

// runDeadline bounds the scripts on one minor; they take several minutes.
const runDeadline = 30 * time.Minute

func main() {
	scripts := flag.String("run", "TestScripts", "the scripts to run, as go test's -run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *scripts, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1) //nolint:gocritic // stop only restores the signal handlers of a process that ends here
	}
}

func run(ctx context.Context, scripts string, names []string) error {
	minors, err := choose(ctx, names)
	if err != nil {
		return err
	}
	logs, err := os.MkdirTemp("", "pvc-pruner-matrix-")
	if err != nil {
		return fmt.Errorf("create the logs' folder: %w", err)
	}
	var results []result
	failed := 0
	for _, minor := range minors {
		r := runMinor(ctx, minor, scripts, filepath.Join(logs, minor.Name+".log"))
		results = append(results, r)
		if !r.ok() {
			failed++
		}
	}
	fmt.Println()
	if err := printTable(os.Stdout, results); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d minors failed; logs are in %s", failed, len(results), logs)
	}
	return os.RemoveAll(logs)
}

// choose returns the minors of those names, or all.
func choose(ctx context.Context, names []string) ([]builder.Minor, error) {
	if len(names) == 0 {
		return builder.Minors(ctx)
	}
	var minors []builder.Minor
	for _, name := range names {
		minor, err := builder.FindMinor(ctx, name)
		if err != nil {
			return nil, err
		}
		minors = append(minors, minor)
	}
	return minors, nil
}

// runMinor runs the scripts on one minor. What they print goes to the file log.
func runMinor(ctx context.Context, minor builder.Minor, scripts, log string) result {
	r := result{minor: minor}
	if _, err := builder.BuildMinor(ctx, minor.Name, os.Stderr); err != nil {
		r.err = fmt.Errorf("build the control plane: %w", err)
		return r
	}
	fmt.Printf("Kubernetes %s … (tail -f %s)\n", minor.Version, log)
	began := time.Now()
	r.err = r.runScripts(ctx, scripts, log)
	r.took = time.Since(began)
	fmt.Printf("Kubernetes %s: %d passed, %d failed in %s %s\n", minor.Version, r.passed, len(r.failed), r.took.Round(time.Second), r.remark())
	return r
}

func (r *result) runScripts(ctx context.Context, scripts, log string) (err error) {
	file, err := os.Create(log)
	if err != nil {
		return fmt.Errorf("create the log: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	cmd := exec.CommandContext(ctx, "go", "test", "./test/e2e", "-count=1", "-json", "-v", "-timeout="+runDeadline.String(), "-run="+scripts)
	cmd.Env = append(os.Environ(), "E2E_KUBERNETES="+r.minor.Name)
	cmd.Stderr = file
	// An interrupt lets go test end the test, and with it the control plane.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	events, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	read := r.readScripts(events, file)
	// After a failed read go test must not wait for a reader.
	_, drained := io.Copy(io.Discard, events)
	if err := errors.Join(read, drained, cmd.Wait()); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	return nil
}
