package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var hosts = []string{"localhost", "127.0.0.1", "webhook.example.svc"}

// made returns a folder with a fresh certificate, and its authority.
func made(t *testing.T) (dir string, ca []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	ca, err := EnsureSelfSigned(dir, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return dir, ca
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

func TestAFreshCertificateVerifiesForEachHostAndNoOther(t *testing.T) {
	dir, ca := made(t)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	for _, host := range hosts {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("host %s: %v", host, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: "other", Roots: roots}); err == nil {
		t.Error("the certificate is valid for a host that was not asked for")
	}
}

func TestOnlyItsOwnerMayReadTheKey(t *testing.T) {
	dir, _ := made(t)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "tls.key"): 0o600} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("mode of %s is %o, want %o", path, got, want)
		}
	}
}

func TestTheKeyOfTheAuthorityIsNotKept(t *testing.T) {
	dir, ca := made(t)
	block, _ := pem.Decode(ca)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	got := files(t, dir)
	if len(got) != 3 {
		t.Errorf("%d files, want ca.crt, tls.crt and tls.key alone", len(got))
	}
	key, _ := pem.Decode([]byte(got["tls.key"]))
	parsed, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signer, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the key is a %T", parsed)
	}
	if signer.PublicKey.Equal(authority.PublicKey) {
		t.Error("the key that is kept is that of the authority")
	}
}

func TestAValidPairIsKept(t *testing.T) {
	dir, ca := made(t)
	before := files(t, dir)
	again, err := EnsureSelfSigned(dir, hosts[:2])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(ca, again) {
		t.Error("another authority is returned")
	}
	if diff := cmp.Diff(before, files(t, dir)); diff != "" {
		t.Errorf("files changed:\n%s", diff)
	}
}

func TestAPairThatWillNotDoIsReplaced(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string) (hosts []string){
		"another host is wanted": func(*testing.T, string) []string { return append(hosts, "more") },
		"it ends too soon": func(t *testing.T, dir string) []string {
			old, err := generate(hosts, time.Now().Add(renewBefore-lifetime-time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, old)
			return hosts
		},
		"key and certificate do not match": func(t *testing.T, dir string) []string {
			other, err := generate(hosts, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, map[string][]byte{keyFile: other[keyFile]})
			return hosts
		},
		"another authority signed it": func(t *testing.T, dir string) []string {
			other, err := generate(hosts, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, map[string][]byte{caFile: other[caFile]})
			return hosts
		},
		"the key is garbage": func(t *testing.T, dir string) []string {
			write(t, dir, map[string][]byte{keyFile: []byte("x")})
			return hosts
		},
		"the authority is garbage": func(t *testing.T, dir string) []string {
			write(t, dir, map[string][]byte{caFile: []byte("x")})
			return hosts
		},
		"the certificate is empty": func(t *testing.T, dir string) []string { write(t, dir, map[string][]byte{certFile: nil}); return hosts },
	} {
		t.Run(name, func(t *testing.T) {
			dir, before := made(t)
			wanted := spoil(t, dir)
			ca, err := EnsureSelfSigned(dir, wanted)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(before, ca) {
				t.Error("the old authority is returned")
			}
			if _, err := load(dir, wanted, time.Now()); err != nil {
				t.Errorf("the new pair will not do: %v", err)
			}
		})
	}
}

func write(t *testing.T, dir string, contents map[string][]byte) {
	t.Helper()
	for name, data := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACertificateForNobodyIsRefused(t *testing.T) {
	if _, err := EnsureSelfSigned(t.TempDir(), nil); err == nil {
		t.Error("no error")
	}
}

func TestAFolderThatCannotBeMadeIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureSelfSigned(filepath.Join(path, "certs"), hosts); err == nil {
		t.Error("no error")
	}
}
