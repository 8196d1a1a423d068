package builder

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// platform is what `go env` says about the build.
type platform struct{ GOOS, GOARCH, GOVERSION string }

func readPlatform(ctx context.Context, dir string) (platform, error) {
	output, err := goOutput(ctx, dir, "env", "-json", "GOOS", "GOARCH", "GOVERSION")
	if err != nil {
		return platform{}, err
	}
	var p platform
	if err := json.Unmarshal(output, &p); err != nil {
		return platform{}, fmt.Errorf("decode go env: %w", err)
	}
	return p, nil
}

// cacheRoot is where folders of programs live.
func cacheRoot() (string, error) {
	if cache := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(cache) {
		return filepath.Join(cache, "pvc-pruner"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(home, ".cache", "pvc-pruner"), nil
}

// folderName is, for example, v1.37.2-linux-amd64-0123456789ab, after the module's name if it is not the control plane's.
func folderName(module toolsModule, p platform) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, p.GOOS, p.GOARCH, p.GOVERSION, strings.Join(buildFlags(module), " "))
	err := filepath.WalkDir(module.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipOtherModule(module.dir, path)
		}
		if !decidesBuild(entry.Name()) {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(module.dir, path)
		if err != nil {
			return err
		}
		fmt.Fprintln(hash, relative, len(content))
		hash.Write(content)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash the tools module: %w", err)
	}
	key := hex.EncodeToString(hash.Sum(nil))[:12]
	parts := []string{p.GOOS, p.GOARCH, key}
	if version := module.versions[kubernetesModule]; version != "" {
		parts = append([]string{version}, parts...)
	}
	if module.name != ControlPlane {
		parts = append([]string{strings.ReplaceAll(string(module.name), "/", "-")}, parts...)
	}
	return strings.Join(parts, "-"), nil
}

// skipOtherModule leaves nested modules out: the dev tools' versions must not rebuild the control plane.
func skipOtherModule(root, path string) error {
	if path == root {
		return nil
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

func decidesBuild(name string) bool {
	return name == "go.mod" || name == "go.sum" || strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}
