package install

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// redirect writes a copy of a kubeconfig that goes to another server, and returns its path.
func redirect(kubeconfig, server string, authority []byte) (string, error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return "", fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = server, authority
	}
	path := kubeconfig + ".redirected"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return path, nil
}
