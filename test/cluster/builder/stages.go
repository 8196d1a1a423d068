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

// joinStages writes kwok's stages, which tell it how nodes and pods move on, into one file. They come from kwok's own
// module, so that the product's go.mod does not need it.
func joinStages(ctx context.Context, module toolsModule, path string) error {
	output, err := goOutput(ctx, module.dir, "list", "-m", "-f", "{{.Dir}}", kwokModule)
	if err != nil {
		return err
	}
	root := filepath.Join(strings.TrimSpace(string(output)), "kustomize", "stage")
	var joined bytes.Buffer
	for _, folder := range []string{"node/fast", "node/heartbeat", "pod/fast"} {
		if err := appendStages(&joined, filepath.Join(root, folder)); err != nil {
			return fmt.Errorf("read kwok's stages: %w", err)
		}
	}
	temporary := path + ".building"
	if err := os.WriteFile(temporary, joined.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write kwok's stages: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("move kwok's stages into place: %w", err)
	}
	return nil
}

// appendStages appends the stages of a folder; its kustomization only lists them.
func appendStages(joined *bytes.Buffer, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" })
	if len(files) == 0 {
		return errors.New("no stage in " + folder)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		joined.WriteString("---\n")
		joined.Write(content)
		joined.WriteString("\n")
	}
	return nil
}
