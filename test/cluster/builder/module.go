package builder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Module names a tools module: the folder below test/tools that has its go.mod.
type Module string

// ControlPlane is the module of the control plane's programs, which all others add to.
const ControlPlane Module = "."

// toolsModule is a module that pins programs.
type toolsModule struct {
	name     Module
	dir      string
	tools    []string          // package paths, as the tool directives list them
	versions map[string]string // by module path
}

// findTools looks for a tools module from the working folder upwards, so that it is found from wherever in the
// clone a command or a test runs.
func findTools(ctx context.Context, name Module) (toolsModule, error) {
	dir, err := os.Getwd()
	if err != nil {
		return toolsModule{}, fmt.Errorf("find the tools module: %w", err)
	}
	for {
		candidate := filepath.Join(dir, "test", "tools", string(name))
		if _, err := os.Stat(filepath.Join(candidate, "go.mod")); err == nil {
			return readTools(ctx, name, candidate)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			where := filepath.Join("test", "tools", string(name), "go.mod")
			return toolsModule{}, errors.New("find the tools module: no " + where + " in this folder or above; run this inside a clone of pvc-pruner")
		}
		dir = parent
	}
}

func readTools(ctx context.Context, name Module, dir string) (toolsModule, error) {
	output, err := goOutput(ctx, dir, "mod", "edit", "-json")
	if err != nil {
		return toolsModule{}, err
	}
	var file struct {
		Tool    []struct{ Path string }
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(output, &file); err != nil {
		return toolsModule{}, fmt.Errorf("decode the tools module's go.mod: %w", err)
	}
	module := toolsModule{name: name, dir: dir, versions: map[string]string{}}
	for _, tool := range file.Tool {
		module.tools = append(module.tools, tool.Path)
	}
	for _, require := range file.Require {
		module.versions[require.Path] = require.Version
	}
	return module, nil
}

// programName is what the program of a package is called. etcd's package is the root of its module.
func programName(pkg string) string {
	if strings.HasPrefix(pkg, "go.etcd.io/etcd/server/") {
		return "etcd"
	}
	return path.Base(pkg)
}

// goCommand prepares the go command in a folder. The caller's GOFLAGS and workspace are meant for other code: either
// could change what is built without changing the folder's name.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	return cmd
}

func goOutput(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := goCommand(ctx, dir, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return output, nil
}
