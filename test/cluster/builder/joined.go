package builder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// joined is a file of manifests beside the programs. It is made of files of a module, so that the product's go.mod does
// not need that module.
type joined struct {
	name    string
	module  string
	folders []string // of the module; every manifest in them
}

// joinedFiles are those that belong to the programs of a module.
func joinedFiles(module toolsModule) []joined {
	var files []joined
	if slices.Contains(module.tools, kwokPackage) {
		// They tell kwok how nodes and pods move on.
		files = append(files, joined{"stages.yaml", kwokModule, []string{"kustomize/stage/node/fast", "kustomize/stage/node/heartbeat", "kustomize/stage/pod/fast"}})
	}
	if module.versions[certManagerModule] != "" {
		files = append(files, joined{"crds.yaml", certManagerModule, []string{"deploy/crds"}})
	}
	return files
}

// join writes the file, which appears complete or not at all.
func join(ctx context.Context, module toolsModule, file joined, path string) error {
	output, err := goOutput(ctx, module.dir, "list", "-m", "-f", "{{.Dir}}", file.module)
	if err != nil {
		return err
	}
	var content bytes.Buffer
	for _, folder := range file.folders {
		if err := appendManifests(&content, filepath.Join(strings.TrimSpace(string(output)), folder)); err != nil {
			return fmt.Errorf("make %s: %w", file.name, err)
		}
	}
	temporary := path + ".building"
	if err := os.WriteFile(temporary, content.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", file.name, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("move %s into place: %w", file.name, err)
	}
	return nil
}

// appendManifests appends the manifests of a folder; its kustomization only lists them.
func appendManifests(content *bytes.Buffer, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	if len(files) == 0 {
		return errors.New("no manifest in " + folder)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		content.WriteString("---\n")
		content.Write(data)
		content.WriteString("\n")
	}
	return nil
}
