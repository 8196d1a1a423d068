package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
)

// script is one running script.
type script struct {
	*world
	name       string
	namespace  string
	kubeconfig string
	// serial scripts run one by one, and only they may stop parts of pvc-pruner.
	serial bool
	// remembered are the UIDs that the script noted.
	remembered map[object]types.UID
	// finalizers are those that the script added and did not remove: in the end they would hold the namespace.
	finalizers map[heldObject]bool
	// flagged: the pruner runs with flags of the script's own.
	flagged bool
	// atEnd takes away what the script made outside its namespace.
	atEnd []func(context.Context) error
}

// heldObject is an object with a finalizer that a script added to it.
type heldObject struct {
	object    object
	finalizer string
}

type scriptKey struct{}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// params of testscript for scripts of w.
func (w *world) params(files []string, serial bool) testscript.Params {
	return testscript.Params{
		Files:     files,
		Cmds:      scriptCommands(),
		Setup:     func(env *testscript.Env) error { return w.setup(env, serial) },
		Condition: w.holds,
		// A file that overwrites another one of the same script is a slip.
		RequireUniqueNames: true,
	}
}

// holds tells whether a script's condition holds: [kubernetes-1.37] on Kubernetes 1.37 and later.
func (w *world) holds(condition string) (bool, error) {
	minor, isMinor := strings.CutPrefix(condition, "kubernetes-1.")
	least, err := strconv.Atoi(minor)
	if !isMinor || err != nil {
		return false, fmt.Errorf("no condition is called %q: it is, for example, kubernetes-1.37", condition)
	}
	return w.minor >= least, nil
}

// setup gives a script its namespace, kubeconfig and environment.
func (w *world) setup(env *testscript.Env, serial bool) error {
	s := &script{
		world: w, serial: serial,
		name:       strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"),
		kubeconfig: filepath.Join(env.WorkDir, ".kube", "config"),
		remembered: map[object]types.UID{}, finalizers: map[heldObject]bool{},
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	if err := s.createNamespace(ctx); err != nil {
		return err
	}
	env.Defer(func() { s.teardown(env.T()) })
	if err := s.writeKubeconfig(); err != nil {
		return err
	}
	env.Values[scriptKey{}] = s
	env.Setenv("NS", s.namespace)
	env.Setenv("KUBECONFIG", s.kubeconfig)
	env.Setenv("HOME", filepath.Dir(filepath.Dir(s.kubeconfig)))
	path := []string{filepath.Dir(w.cluster.Program("kubectl")), w.plugins, env.Getenv("PATH")}
	env.Setenv("PATH", strings.Join(path, string(os.PathListSeparator)))
	return nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// createNamespace makes a fresh namespace that is ready for pods.
func (s *script) createNamespace(ctx context.Context) error {
	readable := notInNames.ReplaceAllString(strings.ToLower(s.name), "-")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-" + strings.Trim(readable[:min(len(readable), 40)], "-") + "-",
	}}
	created, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create a namespace: %w", err)
	}
	s.namespace = created.Name
	// Pods are refused until their service account exists, and their controller would back off.
	return poll(ctx, func(ctx context.Context) (string, error) {
		_, err := s.client.CoreV1().ServiceAccounts(s.namespace).Get(ctx, "default", metav1.GetOptions{})
		return "", err
	})
}

// writeKubeconfig copies the admin's kubeconfig, with the script's namespace as the current one.
func (s *script) writeKubeconfig() error {
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read the admin's kubeconfig: %w", err)
	}
	config.Contexts[config.CurrentContext].Namespace = s.namespace
	if err := clientcmd.WriteToFile(*config, s.kubeconfig); err != nil {
		return fmt.Errorf("write the script's kubeconfig: %w", err)
	}
	return nil
}

// teardown removes the script's namespace without waiting for it, and brings back what the script stopped.
func (s *script) teardown(t testscript.T) {
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	if s.serial {
		if err := s.repair(s.flagged); err != nil {
			t.Log("bring back what the script stopped:", err)
			defer t.FailNow()
		}
	}
	for _, end := range s.atEnd {
		if err := end(ctx); err != nil {
			t.Log("take away what the script made:", err)
		}
	}
	if os.Getenv("E2E_KEEP") != "" {
		t.Log("namespace kept:", s.namespace)
		return
	}
	if err := s.deleteNamespace(ctx); err != nil {
		t.Log("delete the namespace:", err)
	}
}

func (s *script) deleteNamespace(ctx context.Context) error {
	err := s.client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil // the script itself deleted it
	}
	errs := []error{err}
	for held := range s.finalizers {
		if err := s.removeFinalizer(ctx, held.object, held.finalizer); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
