package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

//go:embed watchdog.sh
var watchdogScript string

// watchdogDeadline is how long the watchdog may take to kill and remove everything.
const watchdogDeadline = 20 * time.Second

// watchdog ends everything that a run folder records once the pipe closes: when we close it, or when the system does
// because this process is gone. A parent-death signal would not do: it is bound to the thread that started the child,
// which the Go runtime may end at any time.
type watchdog struct {
	pipe   *os.File
	exited chan error
	once   sync.Once
	err    error
}

func startWatchdog(ctx context.Context, run runDir) (*watchdog, error) {
	// Go marks both ends close-on-exec: no program inherits the write end and keeps the pipe open after our death.
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the watchdog's pipe: %w", err)
	}
	defer func() { _ = reader.Close() }()

	keep := "remove"
	if run.keep {
		keep = "keep"
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", "-c", watchdogScript, "watchdog", run.root, keep)
	cmd.Stdin = reader
	cmd.Dir = "/" // it must not hold a folder that others want to remove
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the watchdog: %w", err), writer.Close())
	}
	w := &watchdog{pipe: writer, exited: make(chan error, 1)}
	go func() { w.exited <- cmd.Wait() }()
	return w, nil
}

// kill makes the watchdog kill a program by the name it was launched under. It does not wait. A watchdog that is gone
// has killed everything already.
func (w *watchdog) kill(name string) {
	_, _ = fmt.Fprintln(w.pipe, name)
}

// end lets the watchdog do its work and waits until it is done.
func (w *watchdog) end() error {
	w.once.Do(func() {
		closed := w.pipe.Close()
		select {
		case exit := <-w.exited:
			w.err = errors.Join(closed, exit)
		case <-time.After(watchdogDeadline):
			w.err = errors.Join(closed, fmt.Errorf("the watchdog is not done after %s", watchdogDeadline))
		}
	})
	return w.err
}
