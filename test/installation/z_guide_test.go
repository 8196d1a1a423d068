package installation

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/test/certmanager"
	"github.com/pvc-pruner/pvc-pruner/test/docs"
)

// fails are the commands that show what is refused, or what this cluster has not, and what they say.
var fails = map[string]string{
	"kubectl annotate statefulset NAME pvc-pruner.io/delay=soon --overwrite --dry-run=server": `pvc-pruner.io/delay`,
	"kubectl auth can-i delete pvc -n NAMESPACE --as=USER":                                    "no",
	"kubectl get volumesnapshots -A -l pvc-pruner.io/claim-uid":                               "the server doesn't have a resource type",
	"kubectl -n pvc-pruner describe certificate pvc-pruner":                                   "NotFound", // another mode
}

// Each command of the guide to the installation works as it stands there. Late by the name of its file: it needs
// cert-manager, which stays until the node ends. Each section finds pvc-pruner as the guide's first command installs it, or none where
// it installs it itself.
func TestTheGuide(t *testing.T) {
	needCertManager(t)
	g := newGuide(t)
	var last string
	for _, file := range docs.Installation {
		commands, err := docs.Commands(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if docs.NotRun(c) != "" {
				continue
			}
			section := file + c.Section
			if section != last && g.changed {
				g.uninstall(t)
			}
			switch {
			case !installs(c):
				g.install(t)
			case section != last:
				g.uninstall(t)
			}
			last = section
			g.run(t, c)
		}
	}
}

type guide struct {
	folder string
	// namespace is where pvc-pruner was installed by the last command that did, or empty.
	namespace string
	// changed: it may not be as the first command installs it.
	changed bool
}

var changes = regexp.MustCompile(`^helm (install|upgrade|uninstall)|^kubectl (create namespace|delete)`)

func installs(c docs.Command) bool {
	return strings.HasPrefix(c.Text, "helm install ") || c.Text == "kubectl create namespace "+own
}

// newGuide makes a folder with the files that the commands name, and the set that they look at.
func newGuide(t *testing.T) *guide {
	t.Helper()
	g := &guide{folder: t.TempDir()}
	chart, err := filepath.Abs(filepath.Join(root, "charts"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(chart, filepath.Join(g.folder, "charts")); err != nil {
		t.Fatal(err)
	}
	run(t, "helm", "package", chartFolder, "--destination", g.folder)
	company := newAuthority(t)
	files := company.sign(t, own+"."+own+".svc")
	files["ca.crt"] = []byte(company.bundle)
	files["values.yaml"] = []byte("image: {repository: " + imageName + "}\ncerts:\n  mode: cert-manager\n  issuerRef: {kind: ClusterIssuer, name: company-ca}\n")
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(g.folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.companyIssuer(t, company)
	newNamespace(t, "team-a", nil)
	newSet(t, "default", "db", 1, nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), enough)
		defer cancel()
		if out, err := command(ctx, "kubectl", "delete", "statefulset/db", "pvc/data-db-0", "clusterissuer/company-ca"); err != nil {
			t.Error(err, out)
		}
	})
	t.Cleanup(func() { g.uninstall(t) })
	return g
}

// companyIssuer is the issuer that the example names.
func (g *guide) companyIssuer(t *testing.T, company *authority) {
	t.Helper()
	if _, err := theNode.Client().CoreV1().Secrets(certmanager.ClusterNamespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "company-ca"}, Type: corev1.SecretTypeTLS, Data: company.pair(t),
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(g.folder, "issuer.yaml")
	issuer := "apiVersion: cert-manager.io/v1\nkind: ClusterIssuer\nmetadata: {name: company-ca}\nspec: {ca: {secretName: company-ca}}\n"
	if err := os.WriteFile(manifest, []byte(issuer), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "kubectl", "apply", "-f", manifest)
}

// install does what the guide says first, unless it is installed.
func (g *guide) install(t *testing.T) {
	t.Helper()
	if g.namespace != "" {
		return
	}
	commands, err := docs.Commands(root, docs.Installation[0])
	if err != nil {
		t.Fatal(err)
	}
	first := slices.IndexFunc(commands, func(c docs.Command) bool { return strings.HasPrefix(c.Text, "helm install ") })
	g.run(t, commands[first])
	g.changed = false
}

// prune makes the set that the commands look at the subject of a decision.
func (g *guide) prune(t *testing.T) {
	t.Helper()
	run(t, "kubectl", "annotate", "--overwrite", "statefulset/db", "pvc-pruner.io/enabled=true", "pvc-pruner.io/delay=0s")
	mustScale(t, "default", "db", 2)
	awaitReady(t, "default", "db", 2)
	mustScale(t, "default", "db", 1)
	awaitGone(t, "default", "data-db-1")
}

func (g *guide) uninstall(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*enough)
	defer cancel()
	for _, namespace := range []string{own, "team-a-system"} {
		if out, err := command(ctx, "helm", "uninstall", own, "-n", namespace, "--ignore-not-found", "--wait"); err != nil {
			t.Error(err, out)
		}
		// A namespace that the next command makes must not be there.
		if namespace == g.namespace {
			if out, err := command(ctx, "kubectl", "delete", "namespace", namespace, "--ignore-not-found"); err != nil {
				t.Error(err, out)
			}
		}
	}
	g.namespace, g.changed = "", false
}

// run runs a command as a reader would, who puts names in place of what is in capitals.
func (g *guide) run(t *testing.T, c docs.Command) {
	t.Helper()
	text := c.Text
	pod := "POD"
	if strings.Contains(text, pod) {
		pod = replicas(t)[0].Name
	}
	if strings.Contains(text, "| grep '\"name\":\"NAME\"'") {
		g.prune(t) // for there to be something to tell
	}
	for _, pair := range [][2]string{
		{"helm get manifest RELEASE --namespace NAMESPACE", "helm get manifest pvc-pruner --namespace pvc-pruner"},
		{"REGISTRY/pvc-pruner", imageName},
		{"MIRROR/pvc-pruner", imageName},
		{"ADDRESS", "127.0.0.1"},
		{"NAMESPACE", "default"},
		{"secret NAME", "secret pvc-pruner-ca"},
		{`"NAME"`, `"db"`},
		{"NAME", "db"},
		{"USER", "jane"},
		{"POD", pod},
	} {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	if strings.HasPrefix(text, "helm install ") || strings.HasPrefix(text, "helm upgrade ") {
		text += " --set image.tag=" + imageTag + ",image.pullPolicy=Never"
	}
	if changes.MatchString(text) {
		g.changed = true
	}
	if installs(c) {
		g.namespace = own
		if strings.Contains(text, "--namespace team-a-system") {
			g.namespace = "team-a-system"
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", text)
	cmd.Dir = g.folder
	cmd.Env = append(os.Environ(), "KUBECONFIG="+theNode.Kubeconfig(), "PATH="+filepath.Dir(theNode.Program("kubectl"))+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%v\n%s", c, out)
	if says, fails := fails[c.Text]; (err != nil) != fails || !strings.Contains(string(out), says) {
		t.Error(fmt.Errorf("%v\nas %s: failed is to be %t, saying %q: %w\n%s", c, text, fails, says, err, out))
	}
}
