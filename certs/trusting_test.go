package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testCA is a certificate authority that signs what it is asked to.
type testCA struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newTestCA(t *testing.T, name string, until time.Time) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: until.Add(-24 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &testCA{key: key, cert: cert, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

// fakeAuthority signs with the authority that it has now.
type fakeAuthority struct {
	mu      sync.Mutex
	now     *testCA
	refuse  error // of the API server
	told    [][]byte
	rotated chan<- struct{}
}

// change is what happens to it from outside.
func (f *fakeAuthority) change(now *testCA, refuse error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now, f.refuse = now, refuse
}

func (f *fakeAuthority) read(context.Context) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.pem, nil
}

func (f *fakeAuthority) tell(_ context.Context, ca []byte) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse == nil {
		f.told = append(f.told, ca)
	}
	return true, f.refuse
}

func (f *fakeAuthority) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
func (f *fakeAuthority) WatchRotation(ch chan<- struct{})     { f.rotated = ch }
func (f *fakeAuthority) StopWatchingRotation(chan<- struct{}) {}
func (f *fakeAuthority) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(2), f.now.cert.NotBefore, f.now.cert.NotAfter
	raw, err := x509.CreateCertificate(rand.Reader, template, f.now.cert, f.now.key.Public(), f.now.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// heard is how often the API server was told, and of whom last.
func (f *fakeAuthority) heard() (times int, last []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.told), f.told[len(f.told)-1]
}

func TestNothingIsServedThatTheAPIServerWouldRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Hour)
		one, two := newTestCA(t, "one", until), newTestCA(t, "two", until)
		inner := &fakeAuthority{now: one}
		a := &trusting{Authority: inner, read: inner.read, tell: inner.tell}
		watch := make(chan struct{}, 1)
		a.WatchRotation(watch)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = a.Run(ctx) }()
		synctest.Wait()
		if _, err := a.Sign(&x509.Certificate{}); !errors.Is(err, errNotTrusted) {
			t.Errorf("signed before the API server was told: %v", err)
		}
		time.Sleep(tellRetry + spreadTime)
		synctest.Wait()
		if _, err := a.Sign(&x509.Certificate{}); err != nil || len(watch) != 1 {
			t.Errorf("not signed after the API server was told: %v, %d told", err, len(watch))
		}
		<-watch

		inner.change(two, errors.New("conflict"))
		inner.rotated <- struct{}{}
		time.Sleep(10 * tellRetry)
		synctest.Wait()
		if _, err := a.Sign(&x509.Certificate{}); !errors.Is(err, errNotTrusted) || len(watch) != 0 {
			t.Errorf("signed by an authority that nobody knows: %v", err)
		}
		inner.change(two, nil)
		time.Sleep(tellRetry + spreadTime)
		synctest.Wait()
		if _, err := a.Sign(&x509.Certificate{}); err != nil || len(watch) != 1 {
			t.Errorf("not signed by the new one: %v", err)
		}
		if times, last := inner.heard(); times != 2 || !bytes.Equal(last, two.pem) {
			t.Errorf("told %d times", times)
		}
		time.Sleep(tellAgain)
		synctest.Wait()
		if times, _ := inner.heard(); times != 3 {
			t.Errorf("told %d times: a bundle that somebody changed is not put right", times)
		}
		a.StopWatchingRotation(watch)
		cancel()
		synctest.Wait()
	})
}

func TestMergeKeepsWhomReplicasMayStillNeed(t *testing.T) {
	now := time.Now()
	fresh, old, older, oldest := newTestCA(t, "fresh", now.Add(time.Hour)), newTestCA(t, "old", now.Add(time.Hour)),
		newTestCA(t, "older", now.Add(time.Hour)), newTestCA(t, "oldest", now.Add(time.Hour))
	expired := newTestCA(t, "expired", now.Add(-time.Hour))
	join := func(cas ...*testCA) []byte {
		var all []byte
		for _, ca := range cas {
			all = append(all, ca.pem...)
		}
		return all
	}
	for name, tt := range map[string]struct{ stored, want []byte }{
		"nothing stored":       {nil, join(fresh)},
		"the same stored":      {join(fresh), join(fresh)},
		"another":              {join(old), join(fresh, old)},
		"in another order":     {join(old, fresh), join(fresh, old)},
		"an expired one":       {join(expired, old), join(fresh, old)},
		"more than are needed": {join(old, older, oldest), join(fresh, old, older)},
		"what is no PEM":       {[]byte("Cg=="), join(fresh)},
		"no certificate":       {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), join(fresh)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := merge(tt.stored, fresh.pem, now); !bytes.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if again := merge(tt.want, fresh.pem, now); !bytes.Equal(again, tt.want) {
				t.Error("it changes each time")
			}
		})
	}
}
