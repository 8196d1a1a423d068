package cluster_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
)

func start(t *testing.T, options cluster.Options) *cluster.Cluster {
	t.Helper()
	options.Log = t.Output()
	c, err := cluster.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestCluster runs its rules one after the other on one cluster.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := start(t, cluster.Options{})

	t.Run("a StatefulSet with claims becomes ready on real folders", func(t *testing.T) { realFolders(t, c) })
	t.Run("deleting a claim removes its volume and folder", func(t *testing.T) { claimRemovesFolder(t, c) })
	t.Run("a claim of class standard-wait is bound only once a pod names it", func(t *testing.T) { waitForConsumer(t, c) })
	t.Run("a user may do only what RBAC grants", func(t *testing.T) { restrictedUser(t, c) })
	t.Run("a service account's kubeconfig works with the real kubectl", func(t *testing.T) { serviceAccount(t, c) })

	t.Run("each program can be stopped and started", func(t *testing.T) { stopAndStart(t, c) })
	t.Run("a set made while kube-controller-manager is stopped waits for it", func(t *testing.T) { lateController(t, c) })
	t.Run("a program that is not part of the control plane is refused", func(t *testing.T) { unknownProgram(t, c) })
}

func realFolders(t *testing.T, c *cluster.Cluster) {
	set := runSet(t, c, "db", 3)
	for i := range 3 {
		claim, err := c.Client().CoreV1().PersistentVolumeClaims(set.Namespace).
			Get(t.Context(), fmt.Sprintf("data-db-%d", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		volume, err := c.Client().CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(volume.Spec.HostPath.Path); err != nil || !info.IsDir() {
			t.Errorf("volume of %s: folder %s: %v", claim.Name, volume.Spec.HostPath.Path, err)
		}
	}
}

func claimRemovesFolder(t *testing.T, c *cluster.Cluster) {
	volume, err := makeClaim(t.Context(), c, "single")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client().CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "single", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume is gone", func(ctx context.Context) (bool, error) {
		_, err := c.Client().CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	awaitGone(t, nil, volume.Spec.HostPath.Path)
}

func stopAndStart(t *testing.T, c *cluster.Cluster) {
	for _, name := range []string{"etcd", "kube-apiserver", "kwok", "kube-scheduler", "kube-controller-manager"} {
		if err := c.StopProgram(name); err != nil {
			t.Fatal(err)
		}
		if err := c.StopProgram(name); err != nil {
			t.Fatalf("stopping a stopped program: %v", err)
		}
		if err := c.StartProgram(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	runSet(t, c, "after-restarts", 1)
}

func lateController(t *testing.T, c *cluster.Cluster) {
	before := len(recordedPIDs(t, c.Dir()))
	if err := c.StopProgram("kube-controller-manager"); err != nil {
		t.Fatal(err)
	}
	if after := len(recordedPIDs(t, c.Dir())); after != before-1 {
		t.Fatalf("%d programs ran before, %d run now", before, after)
	}
	if _, err := c.Client().AppsV1().StatefulSets("default").Create(t.Context(), statefulSet("late", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.StartProgram(t.Context(), "kube-controller-manager"); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, c, "late", 1)
}

func unknownProgram(t *testing.T, c *cluster.Cluster) {
	if err := c.StopProgram("kubelet"); err == nil {
		t.Error("no error")
	}
}

// TestTwoAtOnce also covers what Stop leaves: nothing, although volumes still exist.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	one := start(t, cluster.Options{Nodes: 1})
	two := start(t, cluster.Options{Nodes: 1})
	volume, err := makeClaim(t.Context(), one, "only-in-one")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Client().CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "only-in-one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other cluster: %v", err)
	}

	pids := recordedPIDs(t, one.Dir())
	for range 2 {
		if err := one.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if left := existing(pids, []string{one.Dir(), volume.Spec.HostPath.Path}); len(left) > 0 {
		t.Errorf("left behind by Stop: %v", left)
	}
	if _, err := makeClaim(t.Context(), two, "still-works"); err != nil {
		t.Error(err)
	}
}

func TestCancelledStartLeavesNoProcess(t *testing.T) {
	t.Parallel()
	good := start(t, cluster.Options{Nodes: 1}) // so that nothing has to be built within the second
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	dir := t.TempDir()
	_, err := cluster.Start(ctx, cluster.Options{Programs: filepath.Dir(good.Program("etcd")), Dir: dir})
	if err == nil {
		t.Fatal("started within a second")
	}
	recorded := readLines(t, filepath.Join(dir, "ended", "pids"))
	if len(recorded) == 0 {
		t.Fatal("nothing was started: the test proves nothing")
	}
	for _, line := range recorded {
		if pid, _, _ := strings.Cut(line, " "); alive(pid) {
			t.Errorf("left behind: %s", line)
		}
	}

	if _, err := cluster.Start(t.Context(), cluster.Options{Programs: filepath.Dir(good.Program("etcd")), Dir: dir}); err == nil {
		t.Error("a folder with another cluster's data was accepted")
	}
}

// runSet creates a StatefulSet in the default namespace and waits until it is ready.
func runSet(t *testing.T, c *cluster.Cluster, name string, replicas int32) *appsv1.StatefulSet {
	t.Helper()
	set, err := c.Client().AppsV1().StatefulSets("default").Create(t.Context(), statefulSet(name, replicas), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, c, name, replicas)
	return set
}

func awaitReady(t *testing.T, c *cluster.Cluster, name string, replicas int32) {
	t.Helper()
	eventually(t, name+" is ready", func(ctx context.Context) (bool, error) {
		set, err := c.Client().AppsV1().StatefulSets("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && set.Status.ReadyReplicas == replicas, err
	})
}

func waitForConsumer(t *testing.T, c *cluster.Cluster) {
	set := statefulSet("patient", 1)
	class := "standard-wait"
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = &class
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-patient-0"}, Spec: set.Spec.VolumeClaimTemplates[0].Spec}
	claims := c.Client().CoreV1().PersistentVolumeClaims("default")
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the claim waits for a consumer", func(ctx context.Context) (bool, error) {
		events, err := c.Client().CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "reason=WaitForFirstConsumer,involvedObject.name=data-patient-0",
		})
		return err == nil && len(events.Items) > 0, err
	})
	if _, err := c.Client().AppsV1().StatefulSets("default").Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, c, "patient", 1)
}

func restrictedUser(t *testing.T, c *cluster.Cluster) {
	config, err := c.UserConfig("jane", "readers")
	if err != nil {
		t.Fatal(err)
	}
	jane, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jane.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("without a grant: %v", err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "readers"}},
	}
	if _, err := c.Client().RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the grant works", func(ctx context.Context) (bool, error) {
		_, err := jane.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil, err
	})
	if err := jane.CoreV1().Pods("default").Delete(t.Context(), "db-0", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("more than the grant: %v", err)
	}
}

func serviceAccount(t *testing.T, c *cluster.Cluster) {
	path, err := c.ServiceAccountKubeconfig(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	who, err := exec.CommandContext(t.Context(), c.Program("kubectl"), "--kubeconfig", path, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").CombinedOutput()
	if err != nil || string(who) != "system:serviceaccount:default:default" {
		t.Errorf("whoami: %s (%v)", who, err)
	}

	user, err := c.UserKubeconfig("joe")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", user)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != c.Config().Host || len(config.CertData) == 0 {
		t.Errorf("kubeconfig of a user: host %q", config.Host)
	}
}

func TestFailedStartNamesTheProgramAndShowsItsLog(t *testing.T) {
	t.Parallel()
	good := start(t, cluster.Options{Nodes: 1}) // builds what is missing, and tells where
	for name, wanted := range map[string]string{
		"etcd":                    "start etcd: ",
		"kube-apiserver":          "start kube-apiserver: ",
		"kube-controller-manager": "start kube-controller-manager: ",
		"kube-scheduler":          "start kube-scheduler: ",
		"kwok":                    "start kwok: ",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Start(t.Context(), cluster.Options{Programs: withBroken(t, filepath.Dir(good.Program(name)), name), Nodes: 1})
			if err == nil {
				t.Fatal("started")
			}
			for _, text := range []string{wanted, "the disk of this program is on fire"} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in the error: %v", text, err)
				}
			}
		})
	}
}

// withBroken returns a folder with all programs but one, which fails as soon as it is started.
func withBroken(t *testing.T, programs, name string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(programs)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.Symlink(filepath.Join(programs, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	// envtest asks for --help before it starts a program.
	script := "#!/bin/sh\n[ \"$1\" = --help ] && exit\necho the disk of this program is on fire >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
