package builder

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMinorsAreOrderedAndTheNewestIsThatOfTheMainModule(t *testing.T) {
	minors, err := Minors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(minors) < 2 || minors[len(minors)-1].Module != ControlPlane {
		t.Fatalf("minors: %+v", minors)
	}
	for i, minor := range minors {
		if minor.Module != ControlPlane && string(minor.Module) != minor.Name {
			t.Errorf("folder %s has Kubernetes %s", minor.Module, minor.Version)
		}
		if i > 0 && number(minor.Name) != number(minors[i-1].Name)+1 {
			t.Errorf("%s follows %s", minor.Name, minors[i-1].Name)
		}
	}
}

func TestAMinorIsFoundByItsName(t *testing.T) {
	minors, err := Minors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	oldest, newest := minors[0], minors[len(minors)-1]
	for name, want := range map[string]Minor{
		oldest.Name: oldest, strings.TrimPrefix(oldest.Name, "v"): oldest,
		newest.Name: newest, "": newest,
	} {
		if got, err := FindMinor(t.Context(), name); err != nil || got != want {
			t.Errorf("%q: %+v (%v)", name, got, err)
		}
	}
	for _, name := range []string{"v1.1", oldest.Version, "v"} {
		if got, err := FindMinor(t.Context(), name); err == nil || !strings.Contains(err.Error(), oldest.Name+", ") {
			t.Errorf("%q: %+v (%v)", name, got, err)
		}
	}
}

// Kubernetes' own go.mod asks for v0.0.0 of its staging modules: one that is replaced by that of another release, or by
// a renovating tool, builds programs that no release is.
func TestStagingModulesAreThoseOfTheRelease(t *testing.T) {
	minors, err := Minors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	replaced := regexp.MustCompile(`(?m)^\t(k8s\.io/\S+) => (k8s\.io/\S+) (\S+)$`)
	for _, minor := range minors {
		module, err := findTools(t.Context(), minor.Module)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(module.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		lines := replaced.FindAllSubmatch(content, -1)
		if len(lines) < 20 || len(lines) != bytes.Count(content, []byte(" => ")) {
			t.Errorf("%s: %d of the replaced modules are Kubernetes'", minor.Name, len(lines))
		}
		want := "v0." + strings.TrimPrefix(minor.Version, "v1.")
		for _, line := range lines {
			if !bytes.Equal(line[1], line[2]) || string(line[3]) != want {
				t.Errorf("%s: %s; want %s", minor.Name, line[0], want)
			}
		}
	}
}

func TestLinkedProgramsOfTheOlderMinorWin(t *testing.T) {
	root := t.TempDir()
	older, newest, joined := filepath.Join(root, "older"), filepath.Join(root, "newest"), filepath.Join(root, "older", "joined")
	for _, path := range []string{
		"older/kubectl", "older/.kubectl.building", "newest/kubectl", "newest/etcd", "newest/.kwok.building", "newest/stages.yaml",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(filepath.Base(filepath.Dir(path))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(joined, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // what is linked already is no error
		for _, folder := range []string{older, newest} {
			if err := linkFiles(folder, joined); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := contents(t, joined)
	want := []string{"etcd of newest", "kubectl of older", "stages.yaml of newest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// contents says what each file of a folder holds.
func contents(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry.Name()+" of "+string(content))
	}
	return all
}
