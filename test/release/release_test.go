package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	chart     = "charts/pvc-pruner/Chart.yaml"
	changelog = "CHANGELOG.md"
)

// repository makes a clone with as much as the script looks at before it builds.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("../../.ci/release")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".ci/release", string(script))
	write(t, dir, chart, "name: pvc-pruner\nversion: 1.2.3\nappVersion: \"1.2.3\"\n")
	write(t, dir, changelog, "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-15\n\n### Added\n\n- This.\n\n## 1.2.2\n\n## 1.2.1\n\n- That.\n")
	git(t, dir, "init", "--quiet")
	commit(t, dir)
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	args = append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgSign=false"}, args...)
	if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func commit(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "add", "--all")
	git(t, dir, "commit", "--quiet", "--allow-empty", "--message=test")
}

func TestNothingIsBuiltFromWhatIsNotReady(t *testing.T) {
	for name, tt := range map[string]struct {
		version string
		files   map[string]string
		dirty   bool
		want    string
	}{
		"no version":                   {want: "must be a semantic version"},
		"a version without a v":        {version: "1.2.3", want: "must be a semantic version"},
		"half a version":               {version: "v1.2", want: "must be a semantic version"},
		"a commit":                     {version: "v1.2.3-4-gabc/x", want: "must be a semantic version"},
		"a dirty tree":                 {version: "v1.2.3", files: map[string]string{"new": ""}, dirty: true, want: "the working tree is not clean"},
		"another version of the chart": {version: "v1.2.4", want: "version in charts/pvc-pruner/Chart.yaml is 1.2.3, and must be 1.2.4"},
		"another version of the program in the chart": {
			version: "v1.2.3", files: map[string]string{chart: "version: 1.2.3\nappVersion: 1.2.2\n"},
			want: "appVersion in charts/pvc-pruner/Chart.yaml is 1.2.2, and must be 1.2.3",
		},
		"no section of the changelog": {
			version: "v1.2.3", files: map[string]string{changelog: "## Unreleased\n\n- This.\n"}, want: `CHANGELOG.md has no section "## 1.2.3"`,
		},
		"an empty section of the changelog": {
			version: "v1.2.2", files: map[string]string{chart: "version: 1.2.2\nappVersion: 1.2.2\n"}, want: `CHANGELOG.md has no section "## 1.2.2"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := repository(t)
			for file, text := range tt.files {
				write(t, dir, file, text)
			}
			if !tt.dirty {
				commit(t, dir)
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci/release"), tt.version).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tt.want) {
				t.Errorf("error %v, want one that says %q:\n%s", err, tt.want, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "dist")); err == nil {
				t.Error("something was built")
			}
		})
	}
}
