package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	servertls "github.com/cert-manager/cert-manager/pkg/server/tls"
	"github.com/cert-manager/cert-manager/pkg/server/tls/authority"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// caKey is where the authority keeps its certificate in the Secret, as cert-manager does.
const caKey = "ca.crt"

// How long what is made at run time is valid, unless told otherwise.
const (
	CADuration   = 365 * 24 * time.Hour
	CertDuration = 7 * 24 * time.Hour
)

// ManagedOptions are all required but the durations.
type ManagedOptions struct {
	Config *rest.Config
	Client kubernetes.Interface
	// Namespace and Secret are where the certificate authority is, which all replicas share.
	// Whoever finds none makes it; it is replaced after two thirds of its life.
	Namespace, Secret string
	// Configuration is the name of the webhook configurations whose CA bundle is kept right.
	Configuration string
	// Hosts are the names that the certificate is valid for.
	Hosts []string
	// CADuration is the life of the authority, CertDuration that of what it signs; 0:
	// CADuration and CertDuration. An authority must outlive what it signs: it is
	// replaced when a third of its life is left, which must be enough for the other.
	CADuration, CertDuration time.Duration
}

// Managed serves a certificate that it makes for itself in memory, signed by an authority
// that all replicas share. It is replaced after two thirds of its life.
type Managed struct{ source *servertls.DynamicSource }

// NewManaged returns a source of certificates, which works once it is started.
func NewManaged(o ManagedOptions) (*Managed, error) {
	if o.Config == nil || o.Client == nil || o.Namespace == "" || o.Secret == "" || o.Configuration == "" || len(o.Hosts) == 0 {
		return nil, errors.New("certs: all options of a managed certificate are required")
	}
	if o.CADuration == 0 {
		o.CADuration = CADuration
	}
	if o.CertDuration == 0 {
		o.CertDuration = CertDuration
	}
	if o.CADuration/3 < o.CertDuration {
		return nil, fmt.Errorf("certs: an authority that is valid for %s cannot sign certificates for %s: a third of its life must be enough for them", o.CADuration, o.CertDuration)
	}
	trusting := &trusting{
		Authority: &authority.DynamicAuthority{
			SecretNamespace: o.Namespace, SecretName: o.Secret, RESTConfig: o.Config, CommonName: "pvc-pruner-ca",
			CADuration: o.CADuration, LeafDuration: o.CertDuration,
			SecretLabels: map[string]string{"app.kubernetes.io/managed-by": "pvc-pruner"},
		},
		read: func(ctx context.Context) ([]byte, error) {
			secret, err := o.Client.CoreV1().Secrets(o.Namespace).Get(ctx, o.Secret, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("read the certificate authority: %w", err)
			}
			return authorityOf(secret)
		},
		tell: func(ctx context.Context, ca []byte) (bool, error) {
			return AddToCABundle(ctx, o.Client, o.Configuration, ca)
		},
	}
	return &Managed{source: &servertls.DynamicSource{DNSNames: o.Hosts, Authority: trusting}}, nil
}

func authorityOf(secret *corev1.Secret) ([]byte, error) {
	ca := secret.Data[caKey]
	if len(ca) == 0 {
		return nil, fmt.Errorf("secret %s/%s has no %s", secret.Namespace, secret.Name, caKey)
	}
	return ca, nil
}

// Start implements manager.Runnable.
func (m *Managed) Start(ctx context.Context) error { return m.source.Start(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (m *Managed) NeedLeaderElection() bool { return false }

// GetCertificate is for tls.Config. Until there is a certificate that the API server
// trusts, it returns an error.
func (m *Managed) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return m.source.GetCertificate(hello)
}
