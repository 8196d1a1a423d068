package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	kubernetesModule  = "k8s.io/kubernetes"
	helmModule        = "helm.sh/helm/v4"
	kwokModule        = "sigs.k8s.io/kwok"
	kwokPackage       = kwokModule + "/cmd/kwok"
	certManagerModule = "github.com/cert-manager/cert-manager"
)

// stillEvery is how often a long compilation shows that it is alive.
const stillEvery = 30 * time.Second

// buildFlags are the same for all programs: a stamp of a package that a program lacks is ignored.
func buildFlags(module toolsModule) []string {
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w " + strings.Join(stamps(module), " ")}
}

// stamps set the versions that Kubernetes' and Helm's own releases set. Unstamped, kubectl and helm fail to parse
// what they and the API server call their version. client-go carries a copy of the same variables. Programs of a module
// without Kubernetes keep what the packages say of themselves: an empty version makes them panic.
func stamps(module toolsModule) []string {
	version := module.versions[kubernetesModule]
	if version == "" {
		return nil
	}
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(
			flags,
			"-X "+pkg+".gitVersion="+version,
			"-X "+pkg+".gitMajor="+major,
			"-X "+pkg+".gitMinor="+minor,
			"-X "+pkg+".gitTreeState=clean",
		)
	}
	return append(flags, "-X "+helmModule+"/internal/version.version="+module.versions[helmModule])
}

// compile builds one package into path, which appears complete or not at all.
func compile(ctx context.Context, module toolsModule, pkg, path string, still func(time.Duration)) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".building")
	args := append([]string{"build", "-o", temporary}, buildFlags(module)...)
	cmd := goCommand(ctx, module.dir, append(args, pkg)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output

	if err := runShowingLife(cmd.Run, still); err != nil {
		return errors.Join(fmt.Errorf("build %s: %w\n%s", pkg, err, output.Bytes()), removeIfThere(temporary))
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("move %s into place: %w", filepath.Base(path), err)
	}
	return nil
}

// runShowingLife calls still from time to time until run returns.
func runShowingLife(run func() error, still func(time.Duration)) error {
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- run() }()
	ticker := time.NewTicker(stillEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			still(time.Since(began))
		}
	}
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
