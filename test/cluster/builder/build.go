package builder

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Build makes sure that every program of a tools module is built and the manifests that it needs are there (kwok's
// stages.yaml, cert-manager's crds.yaml), and returns their folder. It says on log what it builds and how long each
// took; a nil log discards that. With everything there it takes as long as reading go.mod.
func Build(ctx context.Context, name Module, log io.Writer) (string, error) {
	if log == nil {
		log = io.Discard
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(log, format+"\n", args...) }
	module, err := findTools(ctx, name)
	if err != nil {
		return "", err
	}
	folder, err := folderOf(ctx, module)
	if err != nil {
		return "", err
	}
	if len(missing(module, folder)) == 0 {
		return folder, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("create the programs' folder: %w", err)
	}
	unlock, err := lock(ctx, folder+".lock", func() { say("Another build of the control plane is under way; waiting for it …") })
	if err != nil {
		return "", err
	}
	defer unlock()
	return folder, buildMissing(ctx, module, folder, say)
}

func folderOf(ctx context.Context, module toolsModule) (string, error) {
	root, err := cacheRoot()
	if err != nil {
		return "", err
	}
	p, err := readPlatform(ctx, module.dir)
	if err != nil {
		return "", err
	}
	name, err := folderName(module, p)
	if err != nil {
		return "", err
	}
	return filepath.Join(root, name), nil
}

// missing returns what the folder lacks: packages, and names of joined manifests last.
func missing(module toolsModule, folder string) []string {
	var lacking []string
	for _, pkg := range module.tools {
		if !exists(filepath.Join(folder, programName(pkg))) {
			lacking = append(lacking, pkg)
		}
	}
	for _, file := range joinedFiles(module) {
		if !exists(filepath.Join(folder, file.name)) {
			lacking = append(lacking, file.name)
		}
	}
	return lacking
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// buildMissing runs under the lock and looks again: the holder before us may have built everything.
func buildMissing(ctx context.Context, module toolsModule, folder string, say func(string, ...any)) error {
	lacking := missing(module, folder)
	if len(lacking) == 0 {
		return nil
	}
	say("Building %s into %s.", describe(module), folder)
	say("The first time takes %s on two cores; afterwards it is there.", firstTime(module))
	began := time.Now()
	for i, item := range lacking {
		if err := buildOne(ctx, module, folder, item, i+1, len(lacking), say); err != nil {
			return err
		}
	}
	say("Built in %s.", time.Since(began).Round(time.Second))
	return nil
}

func describe(module toolsModule) string {
	if module.name == ControlPlane {
		return "the control plane (Kubernetes " + module.versions[kubernetesModule] + ")"
	}
	return "the programs of test/tools/" + string(module.name)
}

func firstTime(module toolsModule) string {
	if module.name == ControlPlane {
		return "a quarter of an hour"
	}
	return "minutes"
}

func buildOne(ctx context.Context, module toolsModule, folder, item string, number, of int, say func(string, ...any)) error {
	for _, file := range joinedFiles(module) {
		if file.name == item {
			return join(ctx, module, file, filepath.Join(folder, file.name))
		}
	}
	name := programName(item)
	say("  [%d/%d] %s …", number, of, name)
	began := time.Now()
	still := func(d time.Duration) { say("        %s: still compiling after %s", name, d.Round(time.Second)) }
	if err := compile(ctx, module, item, filepath.Join(folder, name), still); err != nil {
		return err
	}
	say("  [%d/%d] %s built in %s", number, of, name, time.Since(began).Round(100*time.Millisecond))
	return nil
}
