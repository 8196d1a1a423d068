package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

// stopGrace is what the program gets to end by itself: it finishes or cancels the deletion in flight.
const stopGrace = 30 * time.Second

// process is one running pvc-pruner.
type process struct {
	name    string
	log     string // the path of its log, which further lives append to
	health  string // its address for probes
	metrics string // its address for metrics
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error // why it ended; read only after exited is closed
}

// launch starts the program; it outlives the call.
func launch(ctx context.Context, plane *cluster.Cluster, p *process, program string, flags []string) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.name, err)
	}
	defer func() { _ = log.Close() }()
	p.cmd = plane.Command(context.WithoutCancel(ctx), p.name, program, flags...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Dir = filepath.Dir(p.log)
	p.cmd.Env = cleanEnvironment(os.Environ())
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("launch %s: %w", p.name, err)
	}
	p.exited = make(chan struct{})
	go func() {
		if p.err = p.cmd.Wait(); p.err == nil {
			p.err = errors.New("exit status 0")
		}
		close(p.exited)
	}()
	return nil
}

// cleanEnvironment drops what would configure the program behind the flags' back.
func cleanEnvironment(environment []string) []string {
	var clean []string
	for _, entry := range environment {
		if !strings.HasPrefix(entry, "PVC_PRUNER_") && !strings.HasPrefix(entry, "KUBE") {
			clean = append(clean, entry)
		}
	}
	return clean
}

// awaitReady waits until check holds, and fails at once when the process ends.
func (p *process) await(ctx context.Context, what string, check func(context.Context) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		last := check(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended (%w) before %s\nthe end of its log:\n%s", p.name, p.err, what, logTail(p.log, 15))
		case <-ctx.Done():
			return fmt.Errorf("%s: still waiting until %s: %w (%w)\nthe end of its log:\n%s", p.name, what, last, context.Cause(ctx), logTail(p.log, 15))
		case <-ticker.C:
		}
	}
}

// ready asks the readiness probe.
func (p *process) ready(ctx context.Context) error {
	_, err := fetch(ctx, "http://"+p.health+"/readyz")
	return err
}

// leads says whether the process holds the lease, in its own words.
func (p *process) leads(ctx context.Context) error {
	text, err := fetch(ctx, "http://"+p.metrics+"/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "leader_election_master_status{") && strings.HasSuffix(strings.TrimSpace(line), " 1") {
			return nil
		}
	}
	return errors.New("it does not hold the lease")
}

// stop ends the process in order, or by force when it takes too long, which is an error.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopGrace):
	}
	return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM", p.name, stopGrace), p.kill())
}

// kill ends the process without a warning.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

func (p *process) signal(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// fetch returns the body of an answer with status 200.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return string(body), nil
}

func (p *process) metricsURL() string { return "http://" + p.metrics + "/metrics" }
