package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// spreadTime is how long the API servers may take to learn of a new CA bundle.
	spreadTime = 3 * time.Second
	// tellAgain is how often the CA bundle is looked at: an upgrade or a hand may change it.
	tellAgain = time.Minute
	// tellRetry is the pause after a failure.
	tellRetry = time.Second
)

// errNotTrusted: the certificate would be refused by the API server.
var errNotTrusted = errors.New("the API server is not told yet to trust the certificate authority")

// trusting is an authority that signs only once the API server trusts it. When the
// authority is replaced, the bundle of the webhook configurations learns of the new one
// before anybody serves what it signed, and keeps the old one: no request fails.
type trusting struct {
	servertls.Authority
	// read returns the certificate of the present authority, in PEM.
	read func(context.Context) ([]byte, error)
	// tell makes the API server trust it, and says whether that was news.
	tell func(ctx context.Context, ca []byte) (news bool, err error)

	mu      sync.Mutex
	ca      []byte
	trusted *x509.CertPool
	watches []chan<- struct{}
}

// Run implements servertls.Authority.
func (t *trusting) Run(ctx context.Context) error {
	rotated := make(chan struct{}, 1)
	t.Authority.WatchRotation(rotated)
	defer t.Authority.StopWatchingRotation(rotated)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return t.Authority.Run(ctx) })
	group.Go(func() error {
		t.keepTrust(ctx, rotated)
		return nil
	})
	return group.Wait()
}

// keepTrust tells the API server of each authority until the context ends.
func (t *trusting) keepTrust(ctx context.Context, rotated <-chan struct{}) {
	next := tellRetry // until the first one is there
	for {
		select {
		case <-ctx.Done():
			return
		case <-rotated:
		case <-time.After(next):
		}
		next = tellAgain
		if err := t.trust(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Info("CA bundle not written, trying again", "cause", err.Error())
			next = tellRetry
		}
	}
}

// trust tells the API server of the present authority, and whoever watches if it is another.
func (t *trusting) trust(ctx context.Context) error {
	ca, err := t.read(ctx)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return errors.New("the certificate authority is no certificate in PEM")
	}
	news, err := t.tell(ctx, ca)
	if err != nil {
		return err
	}
	t.mu.Lock()
	first, same := t.ca == nil, bytes.Equal(t.ca, ca)
	t.mu.Unlock()
	if same {
		return nil
	}
	if news || !first { // if it is no news, another replica has just told it
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(spreadTime):
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ca, t.trusted = ca, pool
	for _, watch := range t.watches {
		select {
		case watch <- struct{}{}:
		default: // it has one to come already
		}
	}
	return nil
}

// WatchRotation implements servertls.Authority: it tells of authorities that are trusted.
func (t *trusting) WatchRotation(ch chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watches = append(t.watches, ch)
}

// StopWatchingRotation implements servertls.Authority.
func (t *trusting) StopWatchingRotation(ch chan<- struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, watch := range t.watches {
		if watch == ch {
			t.watches = append(t.watches[:i], t.watches[i+1:]...)
			return
		}
	}
}

// Sign implements servertls.Authority. What the API server would refuse is an error, and
// signed again later.
func (t *trusting) Sign(template *x509.Certificate) (*x509.Certificate, error) {
	cert, err := t.Authority.Sign(template)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trusted == nil {
		return nil, errNotTrusted
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: t.trusted, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotTrusted, err)
	}
	return cert, nil
}
