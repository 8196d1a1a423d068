package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// tokenLifetime of service account tokens: longer than any test or demo.
const tokenLifetime = 12 * time.Hour

// UserConfig returns the configuration of a user with a client certificate. The user may do nothing but what RBAC
// grants to the name or one of the groups.
func (c *Cluster) UserConfig(user string, groups ...string) (*rest.Config, error) {
	c.servers.users.Lock()
	defer c.servers.users.Unlock()
	// Tests wait for what the cluster does, never for their own client's rate limit.
	added, err := c.servers.plane.AddUser(envtest.User{Name: user, Groups: groups}, &rest.Config{QPS: 1000, Burst: 2000})
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", user, err)
	}
	return added.Config(), nil
}

// UserKubeconfig is UserConfig as a file.
func (c *Cluster) UserKubeconfig(user string, groups ...string) (string, error) {
	config, err := c.UserConfig(user, groups...)
	if err != nil {
		return "", err
	}
	return c.writeKubeconfig("user", config)
}

// ServiceAccountKubeconfig returns a kubeconfig with a token of an existing service account, valid for hours.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	lifetime := int64(tokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &lifetime}}
	answer, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token of service account %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = answer.Status.Token
	return c.writeKubeconfig("service-account", config)
}

// writeKubeconfig writes a kubeconfig under a name of its own, so that one user may be asked for again and again.
func (c *Cluster) writeKubeconfig(kind string, config *rest.Config) (path string, err error) {
	content, err := clientcmd.Write(kubeconfigOf(config))
	if err != nil {
		return "", fmt.Errorf("encode the kubeconfig: %w", err)
	}
	file, err := os.CreateTemp(c.run.in("kubeconfigs"), kind+"-*.yaml")
	if err != nil {
		return "", fmt.Errorf("create the kubeconfig: %w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write the kubeconfig: %w", err)
	}
	return filepath.Clean(file.Name()), nil
}

func kubeconfigOf(config *rest.Config) clientcmdapi.Config {
	const name = "pvc-pruner"
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken},
		},
		Contexts: map[string]*clientcmdapi.Context{
			name: {Cluster: name, AuthInfo: name, Namespace: metav1.NamespaceDefault},
		},
		CurrentContext: name,
	}
}
