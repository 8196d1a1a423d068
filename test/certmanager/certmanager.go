package certmanager

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/cluster/builder"
)

const (
	module = builder.Module("certmanager")
	// crdsDeadline bounds the installation of the CustomResourceDefinitions.
	crdsDeadline = time.Minute
	// ClusterNamespace is where ClusterIssuers have their Secrets.
	ClusterNamespace = "cert-manager"
)

// Plane is a cluster that cert-manager is started beside, such as that of test/cluster or the node of test/node.
type Plane interface {
	Client() kubernetes.Interface
	// Kubeconfig is the path of the admin's.
	Kubeconfig() string
	// Program is the path of a program such as kubectl.
	Program(name string) string
	// Dir is a folder that goes with the cluster.
	Dir() string
	// Command prepares a program that ends with the cluster.
	Command(ctx context.Context, name, program string, args ...string) *exec.Cmd
}

// Start installs cert-manager's CustomResourceDefinitions and starts its controllers, after building them where they
// are missing, which takes minutes once and is told on log. They live until Stop or until the cluster is stopped; ctx
// bounds only the start. What they bring about is awaited with Await. flags are added to the program's own.
func Start(ctx context.Context, plane Plane, log io.Writer, flags ...string) (*Process, error) {
	programs, err := builder.Build(ctx, module, log)
	if err != nil {
		return nil, fmt.Errorf("build cert-manager: %w", err)
	}
	if err := installCRDs(ctx, plane, filepath.Join(programs, "crds.yaml")); err != nil {
		return nil, err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ClusterNamespace}}
	if _, err := plane.Client().CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create the namespace of cert-manager: %w", err)
	}
	return Launch(ctx, plane, "cert-manager", filepath.Join(programs, "cert-manager"), append([]string{"--kubeconfig=" + plane.Kubeconfig()}, flags...)...)
}

// installCRDs returns when the API server serves the kinds.
func installCRDs(ctx context.Context, plane Plane, path string) error {
	ctx, cancel := context.WithTimeout(ctx, crdsDeadline)
	defer cancel()
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", path},
		{"wait", "--for=condition=Established", "--timeout=" + crdsDeadline.String(), "-f", path},
	} {
		args = append(args, "--kubeconfig", plane.Kubeconfig())
		if out, err := exec.CommandContext(ctx, plane.Program("kubectl"), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}
