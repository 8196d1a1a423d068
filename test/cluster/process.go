package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startDeadline bounds the start of one program; seconds are usual, a loaded machine takes many more.
	startDeadline = 2 * time.Minute
	// stopGrace is what a program gets to end by itself before it is killed.
	stopGrace = 10 * time.Second
	// portAttempts is how often a program is started anew because somebody took its port in between.
	portAttempts = 3
	pollInterval = 50 * time.Millisecond
)

// process is one program of the control plane that we start ourselves.
type process struct {
	name    string
	program string
	run     runDir
	// args are the program's flags; port is free on 127.0.0.1.
	args func(port int) []string
	// serves says that the program answers /healthz on the port.
	serves bool

	mu      sync.Mutex
	running *running
}

// running is one life of a process.
type running struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // why it ended; read only after exited is closed
}

func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	return retryBusyPort(p.run, p.name, func() error { return p.startOnce(ctx) })
}

func (p *process) startOnce(ctx context.Context) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	life, err := launch(ctx, p.run, p.name, p.program, p.args(port))
	if err != nil {
		return err
	}
	if err := p.await(ctx, life, port); err != nil {
		return errors.Join(err, life.end())
	}
	p.running = life
	return nil
}

// await waits until the process is healthy. A program that serves nothing counts as started at once; what it does is
// awaited by the caller.
func (p *process) await(ctx context.Context, life *running, port int) error {
	if !p.serves {
		return nil
	}
	client := &http.Client{
		Timeout: time.Second,
		// The certificate is one that the program made for itself a moment ago: nobody could verify it.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("https://127.0.0.1:%d/healthz", port)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if healthy(ctx, client, url) {
			return nil
		}
		select {
		case <-life.exited:
			return fmt.Errorf("%s ended before it was ready: %w", p.name, life.err)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", p.name, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

func healthy(ctx context.Context, client *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return nil
	}
	life := p.running
	p.running = nil
	return life.end()
}

// died returns why the process is gone although nobody stopped it; nil while it runs.
func (p *process) died() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		return nil
	}
	select {
	case <-p.running.exited:
		return fmt.Errorf("%s ended: %w", p.name, p.running.err)
	default:
		return nil
	}
}

// launch starts a program through the launcher, which records its PID for the watchdog.
func launch(ctx context.Context, run runDir, name, program string, args []string) (*running, error) {
	log, err := run.openLog(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()

	// The program outlives the call that started it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", append([]string{run.launcher(), name, program}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = run.root
	// Ctrl-C in a terminal goes to the whole foreground group: it must reach the owner, who stops in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch %s: %w", name, err)
	}
	life := &running{cmd: cmd, exited: make(chan struct{})}
	go func() {
		life.err = exitReason(cmd.Wait())
		close(life.exited)
	}()
	return life, nil
}

func exitReason(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// end stops the program and returns when it is gone and reaped.
func (l *running) end() error {
	for _, step := range []struct {
		signal os.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, stopGrace}, {syscall.SIGKILL, stopGrace}} {
		if err := l.cmd.Process.Signal(step.signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal PID %d: %w", l.cmd.Process.Pid, err)
		}
		select {
		case <-l.exited:
			return nil
		case <-time.After(step.wait):
		}
	}
	return fmt.Errorf("PID %d does not end", l.cmd.Process.Pid)
}

// freePort returns a port of 127.0.0.1 that is free now. Somebody may take it before the program does: see
// retryBusyPort.
func freePort(ctx context.Context) (int, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	_, text, err := net.SplitHostPort(listener.Addr().String())
	if err := errors.Join(err, listener.Close()); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return strconv.Atoi(text)
}

// retryBusyPort starts a program again when its log says that its port was taken, and only then. The error of the last
// attempt shows the end of the log.
func retryBusyPort(run runDir, name string, start func() error) error {
	for attempt := 1; ; attempt++ {
		err := start()
		if err == nil {
			return nil
		}
		tail := run.logTail(name, 15)
		if attempt == portAttempts || !strings.Contains(tail, "address already in use") {
			return fmt.Errorf("start %s: %w\nthe end of its log:\n%s", name, err, tail)
		}
	}
}
