package certmanager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// stopGrace is what a program gets to end by itself.
	stopGrace = 30 * time.Second
	// lookAgain is the pause between two looks at what is waited for.
	lookAgain = 100 * time.Millisecond
	// tailLines of a log are shown with an error.
	tailLines = 20
)

// Process is a program that runs beside a control plane.
type Process struct {
	name   string
	log    string
	pid    *os.Process
	exited chan struct{}
	err    error // why it ended; read only after exited is closed
}

// Launch starts a program under the cluster's watchdog; it outlives the call. Its log is written into the cluster's
// folder.
func Launch(ctx context.Context, plane Plane, name, program string, args ...string) (*Process, error) {
	p := &Process{name: name, log: filepath.Join(plane.Dir(), name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	defer func() { _ = log.Close() }() // the program has a copy
	cmd := plane.Command(context.WithoutCancel(ctx), name, program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch %s: %w", name, err)
	}
	p.pid = cmd.Process
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Await waits until check holds, and fails when the process ends or the context does. The error carries what check said
// last and the end of the log.
func (p *Process) Await(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// A look that the deadline cut off tells less than the one before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended (%w) before %s: %w\nthe end of its log:\n%s", p.name, p.reason(), what, last, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("waited until %s: %w (%w)\nthe end of the log of %s:\n%s", what, last, context.Cause(ctx), p.name, p.tail())
		case <-ticker.C:
		}
	}
}

// Stop ends the process by SIGTERM. It is an error if it ends otherwise than with status 0, or had ended before.
func (p *Process) Stop() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s had ended before it was stopped: %w\nthe end of its log:\n%s", p.name, p.reason(), p.tail())
	default:
	}
	if err := p.pid.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		if p.err != nil {
			return fmt.Errorf("%s ended badly: %w\nthe end of its log:\n%s", p.name, p.err, p.tail())
		}
		return nil
	case <-time.After(stopGrace):
	}
	late := fmt.Errorf("%s did not end within %s of SIGTERM", p.name, stopGrace)
	if err := p.pid.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(late, err)
	}
	<-p.exited
	return late
}

func (p *Process) reason() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}

func (p *Process) tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-tailLines):], "\n")
}
