package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// serverGrace is what etcd and the API server get to end by themselves before they are killed.
const serverGrace = time.Second

// servers are the two programs that envtest starts for us, with their ports, certificates and users.
type servers struct {
	plane envtest.ControlPlane
	etcd  *server
	api   *server
	users sync.Mutex // envtest's certificate authority counts serial numbers without a lock
}

// server lets an envtest program be stopped and started like any other.
type server struct {
	name  string
	run   runDir
	kill  func(name string)
	begin func(out *os.File) error
	end   func() error

	mu      sync.Mutex
	running bool
}

func newServers(run runDir, programs string, kill func(name string)) (*servers, error) {
	etcdPath, err := run.executable("etcd", filepath.Join(programs, "etcd"))
	if err != nil {
		return nil, err
	}
	apiPath, err := run.executable("kube-apiserver", filepath.Join(programs, "kube-apiserver"))
	if err != nil {
		return nil, err
	}

	// Paths are set here rather than found by envtest, which prefers what its environment variables name.
	etcd := &envtest.Etcd{Path: etcdPath, DataDir: run.etcdData(), StartTimeout: startDeadline, StopTimeout: stopGrace}
	// The data dies with the cluster. It need not survive a crash of the machine, which is all that fsync is for; a
	// killed etcd finds everything again in the page cache.
	etcd.Configure().Set("unsafe-no-fsync", "true")

	api := &envtest.APIServer{Path: apiPath, CertDir: run.certificates(), StartTimeout: startDeadline, StopTimeout: stopGrace}
	// envtest turns the ServiceAccount plugin off because it has no controller manager. We have one: pods get their
	// service account as in any cluster.
	api.Configure().Disable("disable-admission-plugins")

	s := &servers{plane: envtest.ControlPlane{Etcd: etcd, APIServer: api, KubectlPath: filepath.Join(programs, "kubectl")}}
	s.etcd = &server{
		name: "etcd", run: run, kill: kill, end: etcd.Stop,
		begin: func(out *os.File) error {
			etcd.Out, etcd.Err = out, out
			return etcd.Start()
		},
	}
	s.api = &server{
		name: "kube-apiserver", run: run, kill: kill, end: api.Stop,
		begin: func(out *os.File) error {
			api.Out, api.Err, api.EtcdURL = out, out, etcd.URL
			return api.Start()
		},
	}
	return s, nil
}

// audit has the API server record the requests of some users; the log is complete up to the last answered request.
func (s *servers) audit(run runDir, users []string) error {
	if len(users) == 0 {
		return nil
	}
	policy, err := json.Marshal(map[string]any{
		"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": []string{"RequestReceived"},
		"rules": []map[string]any{{"level": "Metadata", "users": users}, {"level": "None"}},
	})
	if err != nil {
		return fmt.Errorf("encode the audit policy: %w", err)
	}
	path := run.in("audit-policy.json")
	if err := os.WriteFile(path, policy, 0o600); err != nil {
		return fmt.Errorf("write the audit policy: %w", err)
	}
	s.plane.APIServer.Configure().Set("audit-policy-file", path).Set("audit-log-path", run.log("audit")).Set("audit-log-mode", "blocking")
	return nil
}

func (s *server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return nil
	}
	return retryBusyPort(s.run, s.name, func() error {
		out, err := s.run.openLog(s.name)
		if err != nil {
			return err
		}
		defer func() { _ = out.Close() }()
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("not started: %w", err)
		}
		// envtest knows no context. It does notice when the program that it waits for ends.
		stopWaiting := context.AfterFunc(ctx, func() { s.kill(s.name) })
		defer stopWaiting()
		if err := s.begin(out); err != nil {
			return err
		}
		s.running = true
		return nil
	})
}

func (s *server) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return nil
	}
	s.running = false
	// envtest asks the program to end and waits. An API server drains its clients' watches first, for up to a minute;
	// whoever stops it here wants an outage, and the data outlives a kill.
	timer := time.AfterFunc(serverGrace, func() { s.kill(s.name) })
	defer timer.Stop()
	if err := s.end(); err != nil {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	return nil
}

// seconds formats a duration for progress lines.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
