package installation

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/pvc-pruner/pvc-pruner/test/certmanager"
)

var startCertManager = sync.OnceValue(func() error {
	_, err := certmanager.Start(context.Background(), theNode, os.Stderr)
	return err
})

// needCertManager starts it once for all tests.
func needCertManager(t *testing.T) {
	t.Helper()
	if err := startCertManager(); err != nil {
		t.Fatal(err)
	}
}

// Late by the name of its file: cert-manager stays until the node ends.
func TestWithCertManagerAClaimIsPruned(t *testing.T) {
	if out, err := command(t.Context(), "helm", append([]string{"install", own, chartFolder, "-n", "default", "--set", "certs.mode=cert-manager"}, image...)...); err == nil {
		t.Fatalf("installed without cert-manager:\n%s", out)
	}
	needCertManager(t)
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
