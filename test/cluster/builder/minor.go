package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Minor is a minor of Kubernetes whose programs can be built.
type Minor struct {
	Name    string // such as v1.36
	Version string // the patch release that is built, such as v1.36.3
	Module  Module
}

// Minors returns what can be built, oldest first: that of each folder test/tools/v1.N, and last the newest, that of
// test/tools itself.
func Minors(ctx context.Context) ([]Minor, error) {
	newest, err := findTools(ctx, ControlPlane)
	if err != nil {
		return nil, err
	}
	folders, err := filepath.Glob(filepath.Join(newest.dir, "v1.*", "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("list the tools modules: %w", err)
	}
	var minors []Minor
	for _, file := range folders {
		name := Module(filepath.Base(filepath.Dir(file)))
		module, err := readTools(ctx, name, filepath.Dir(file))
		if err != nil {
			return nil, err
		}
		minors = append(minors, minorOf(module))
	}
	minors = append(minors, minorOf(newest))
	slices.SortFunc(minors, func(a, b Minor) int { return number(a.Name) - number(b.Name) })
	return minors, nil
}

func minorOf(module toolsModule) Minor {
	version := module.versions[kubernetesModule]
	return Minor{Name: version[:max(0, strings.LastIndex(version, "."))], Version: version, Module: module.name}
}

// number of a minor in the order of releases: v1.9 comes before v1.10.
func number(minor string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(minor, "v1."))
	if err != nil {
		return -1
	}
	return n
}

// FindMinor returns the minor of that name, such as v1.36 or 1.36; of an empty name, the newest.
func FindMinor(ctx context.Context, name string) (Minor, error) {
	minors, err := Minors(ctx)
	if err != nil {
		return Minor{}, err
	}
	if name == "" {
		return minors[len(minors)-1], nil
	}
	var known []string
	for _, minor := range minors {
		if minor.Name == "v"+strings.TrimPrefix(name, "v") {
			return minor, nil
		}
		known = append(known, minor.Name)
	}
	return Minor{}, fmt.Errorf("no tools module builds Kubernetes %s: choose one of %s", name, strings.Join(known, ", "))
}

// BuildMinor is Build for the whole control plane of a minor that FindMinor knows. An older minor brings only what
// Kubernetes itself releases; the rest, such as etcd and kwok, is the newest's. Both are joined by links in a folder
// named after both, so that neither changes under a running cluster when the other moves on.
func BuildMinor(ctx context.Context, name string, log io.Writer) (string, error) {
	minor, err := FindMinor(ctx, name)
	if err != nil {
		return "", err
	}
	newest, err := Build(ctx, ControlPlane, log)
	if err != nil || minor.Module == ControlPlane {
		return newest, err
	}
	older, err := Build(ctx, minor.Module, log)
	if err != nil {
		return "", err
	}
	joined := filepath.Join(older, "with-"+filepath.Base(newest))
	if err := os.MkdirAll(joined, 0o755); err != nil {
		return "", fmt.Errorf("create the programs' folder: %w", err)
	}
	// What the older minor has wins: it is linked first.
	return joined, errors.Join(linkFiles(older, joined), linkFiles(newest, joined))
}

// linkFiles links the files of a folder of programs under names that are not yet taken.
func linkFiles(from, into string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("list programs: %w", err)
	}
	for _, entry := range entries {
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		err := os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(into, entry.Name()))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("link programs: %w", err)
		}
	}
	return nil
}
