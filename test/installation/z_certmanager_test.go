package installation

import (
	"os"
	"testing"

	"github.com/pvc-pruner/pvc-pruner/test/certmanager"
)

// Last by the name of its file: cert-manager stays until the node ends.
func TestWithCertManagerAClaimIsPruned(t *testing.T) {
	if out, err := command(t.Context(), "helm", append([]string{"install", own, chartFolder, "-n", "default", "--set", "certs.mode=cert-manager"}, image...)...); err == nil {
		t.Fatalf("installed without cert-manager:\n%s", out)
	}
	if _, err := certmanager.Start(t.Context(), theNode, os.Stderr); err != nil {
		t.Fatal(err)
	}
	ownNamespace(t)
	install(t, "--set", "certs.mode=cert-manager")
	const namespace = "shop"
	newNamespace(t, namespace, nil)
	newSet(t, namespace, "db", 3, nil)
	before := claims(t, namespace)
	mustScale(t, namespace, "db", 2)
	awaitGone(t, namespace, "data-db-2")
	kept(t, namespace, before, "data-db-0", "data-db-1")
}
