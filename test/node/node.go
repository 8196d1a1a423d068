package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

const (
	startDeadline = 4 * time.Minute
	stopDeadline  = 30 * time.Second
	// PauseImage is in the node from the start: Command pause waits; see its flags.
	PauseImage = "localhost/pause:1"
)

// Missing says what this machine lacks, in one line, or nothing.
func Missing() string {
	if os.Geteuid() != 0 {
		return "root is needed"
	}
	if _, err := os.Stat("/usr/lib/cni/bridge"); err != nil {
		return "containernetworking-plugins is needed (/usr/lib/cni)"
	}
	for _, program := range []string{"unshare", "nsenter", "ip", "iptables-save", "openssl", "pgrep", "apt-get", "dpkg-deb", "buildah"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is needed"
		}
	}
	return ""
}

// Node is a running one-node cluster.
type Node struct {
	run      string
	scripts  string
	programs string // of the control plane
	tools    string
	log      io.Writer
	unlock   func()
	ended    chan struct{}
	kill     context.CancelFunc

	config *rest.Config
	client kubernetes.Interface
}

// Start builds what is missing and starts a node. It lives until Stop, or until this process is gone; ctx bounds only
// the start.
func Start(ctx context.Context, log io.Writer) (*Node, error) {
	if lacking := Missing(); lacking != "" {
		return nil, errors.New("a node cannot be started here: " + lacking)
	}
	n := &Node{log: log, ended: make(chan struct{})}
	programs, err := n.build(ctx)
	if err != nil {
		return nil, err
	}
	if n.unlock, err = lock(ctx); err != nil {
		return nil, err
	}
	if n.run, err = os.MkdirTemp("", "pvc-pruner-node-"); err != nil {
		n.unlock()
		return nil, fmt.Errorf("make the node's folder: %w", err)
	}
	if err := n.up(ctx, programs); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

// build returns the folder of kubelet and kube-proxy.
func (n *Node) build(ctx context.Context) (string, error) {
	var err error
	if n.programs, err = builder.Build(ctx, builder.ControlPlane, n.log); err != nil {
		return "", fmt.Errorf("build the control plane: %w", err)
	}
	programs, err := builder.Build(ctx, "node", n.log)
	if err != nil {
		return "", fmt.Errorf("build the node's programs: %w", err)
	}
	root, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	n.scripts = filepath.Join(strings.TrimSpace(root), "test", "node")
	n.tools = filepath.Join(programs, "debian")
	_, err = output(ctx, "", "env", "TOOLS="+n.tools, filepath.Join(n.scripts, "prepare.sh"))
	return programs, err
}

func (n *Node) up(ctx context.Context, programs string) error {
	if err := n.pauseImage(ctx); err != nil {
		return err
	}
	began := time.Now()
	living, kill := context.WithCancel(context.Background())
	n.kill = kill
	ready, err := n.launch(living, programs)
	if err != nil {
		close(n.ended)
		return fmt.Errorf("start the node: %w", err)
	}
	select {
	case err = <-ready:
	case <-time.After(startDeadline):
		err = fmt.Errorf("the node is not ready after %s", startDeadline)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(n.log, "node ready after %.1f s\n", time.Since(began).Seconds())
	if n.config, err = clientcmd.BuildConfigFromFlags("", n.Kubeconfig()); err != nil {
		return fmt.Errorf("read the admin's kubeconfig: %w", err)
	}
	n.config.QPS = -1
	n.client, err = kubernetes.NewForConfig(n.config)
	return err
}

// launch starts up.sh, which runs as long as the context. The channel tells when the node is ready, or why it ended.
func (n *Node) launch(ctx context.Context, programs string) (<-chan error, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(n.scripts, "up.sh"))
	cmd.Env = append(os.Environ(), "CONTROL="+n.programs, "PROGRAMS="+programs, "TOOLS="+n.tools, "RUN="+n.run)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	// The node ends with this process, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // its trap kills the namespaces
	started, ready := make(chan error, 1), make(chan error, 2)
	go func() {
		// The signal comes when the thread that started the process ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(n.ended)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if lines.Text() == "ready" {
				ready <- nil
			}
		}
		err = cmd.Wait()
		ready <- fmt.Errorf("the node ended: %w\n%s", err, stderr.String())
	}()
	return ready, <-started
}

// pauseImage builds the image of the pods.
func (n *Node) pauseImage(ctx context.Context) error {
	folder := filepath.Join(n.run, "pause")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if _, err := output(ctx, n.scripts, "env", "CGO_ENABLED=0", "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(folder, "pause"), "./pause"); err != nil {
		return err
	}
	file := "FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT [\"/pause\"]\n"
	if err := os.WriteFile(filepath.Join(folder, "Containerfile"), []byte(file), 0o600); err != nil {
		return err
	}
	store := []string{"--root", filepath.Join(folder, "root"), "--runroot", filepath.Join(folder, "runroot"), "--storage-driver", "vfs"}
	if _, err := output(ctx, folder, "buildah", append(store, "build", "--isolation", "chroot", "-q", "-t", PauseImage, folder)...); err != nil {
		return err
	}
	_, err := output(ctx, folder, "buildah", append(store, "push", "-q", PauseImage, "oci-archive:"+filepath.Join(n.run, "pause.tar")+":"+PauseImage)...)
	return err
}

// Stop ends the node and removes all of it.
func (n *Node) Stop() error {
	defer n.unlock()
	if n.kill != nil {
		n.kill()
		select {
		case <-n.ended:
		case <-time.After(stopDeadline):
			return fmt.Errorf("the node does not end within %s", stopDeadline)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopDeadline)
	defer cancel()
	_, err := output(ctx, "", "env", "RUN="+n.run, filepath.Join(n.scripts, "down.sh"))
	return err
}

// Client is the admin's.
func (n *Node) Client() kubernetes.Interface { return n.client }

// Config is the admin's.
func (n *Node) Config() *rest.Config { return rest.CopyConfig(n.config) }

// Kubeconfig is the path of the admin's.
func (n *Node) Kubeconfig() string { return filepath.Join(n.run, "admin.kubeconfig") }

// Program returns the path of a program of the control plane, such as kubectl or helm.
func (n *Node) Program(name string) string { return filepath.Join(n.programs, name) }

// Dir is a folder that goes with the node.
func (n *Node) Dir() string { return n.run }

// Load makes an image of an OCI archive known to the node.
func (n *Node) Load(ctx context.Context, archive string) error {
	_, err := n.Inside(ctx, filepath.Join(n.tools, "ctr"), "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import", archive)
	return err
}

// Inside runs a command in the namespaces of the node, as root.
func (n *Node) Inside(ctx context.Context, command ...string) (string, error) {
	return output(ctx, "", "nsenter", append([]string{"-t", n.first(), "-m", "-n", "-p", "-u", "--"}, command...)...)
}

// Command prepares a program that runs in the namespaces of the node, and ends with it. Signals do not reach it.
func (n *Node) Command(ctx context.Context, _, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"-t", n.first(), "-m", "-n", "-p", "-u", "--", program}, args...)...)
}

// first is the first process in the namespaces of the node, "" if there is none.
func (n *Node) first() string {
	pid, err := os.ReadFile(filepath.Join(n.run, "init.pid"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(pid))
}

// Logs are the ends of the logs of the node's programs.
func (n *Node) Logs() string {
	text, err := output(context.Background(), n.run, "sh", "-c", "tail -n 8 logs/*.log")
	if err != nil {
		return err.Error()
	}
	return text
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", program, err)
	}
	return string(out), nil
}

// lock waits until no other node runs on this machine. The system lets go of it when its holder dies.
func lock(ctx context.Context) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(os.TempDir(), "pvc-pruner-node.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait until another node ends: %w", context.Cause(ctx))
		case <-time.After(200 * time.Millisecond):
		}
	}
}
