package certmanager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubelet mounts a Secret as kubelets do (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go): the files are links
// through ..data to a folder of their own version, and ..data is replaced in one step. A real one may do so a minute
// and more after the Secret changed; this one does when it is told to, so that a test decides what happens in between.
type kubelet struct {
	world             *world
	namespace, secret string
	dir               string
	version           int
}

func newKubelet(t *testing.T, w *world, namespace, secret string) *kubelet {
	t.Helper()
	k := &kubelet{world: w, namespace: namespace, secret: secret, dir: t.TempDir()}
	k.sync(t)
	return k
}

// sync makes the files those of the Secret as it is now.
func (k *kubelet) sync(t *testing.T) {
	t.Helper()
	secret, err := k.world.client.CoreV1().Secrets(k.namespace).Get(t.Context(), k.secret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(k.dir, "..data")
	before, _ := os.Readlink(data) // there is none the first time
	k.version++
	version := fmt.Sprintf("..version-%d", k.version)
	must(t, os.Mkdir(filepath.Join(k.dir, version), 0o700))
	for name, content := range secret.Data {
		must(t, os.WriteFile(filepath.Join(k.dir, version, name), content, 0o600))
	}
	must(t, os.Symlink(version, data+"_tmp"))
	must(t, os.Rename(data+"_tmp", data))
	for name := range secret.Data {
		if _, err := os.Lstat(filepath.Join(k.dir, name)); err != nil {
			must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(k.dir, name)))
		}
	}
	if before != "" {
		must(t, os.RemoveAll(filepath.Join(k.dir, before)))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
