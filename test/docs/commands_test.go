package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestCommands(t *testing.T) {
	page := "# First\n" +
		"Say `kubectl get pods`, not `kubectl`.\n" +
		"| `kubectl get x \\| grep y` | z |\n" +
		"```sh\n# Alone.\nhelm install a \\\n  --wait    # why\nb && c\n```\n" +
		"## Second\n" +
		"```console\n$ kubectl scale a\nscaled\n```\n" +
		"```yaml\nkubectl: no\n```\n"
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "page.md"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Commands(folder, "page.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{
		{File: "page.md", Line: 2, Section: "First", Text: "kubectl get pods", Inline: true},
		{File: "page.md", Line: 3, Section: "First", Text: "kubectl get x | grep y", Inline: true},
		{File: "page.md", Line: 6, Section: "First", Text: "helm install a --wait"},
		{File: "page.md", Line: 8, Section: "First", Text: "b && c"},
		{File: "page.md", Line: 12, Section: "Second", Text: "kubectl scale a"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Each command that a user reads is run by a script, by the installation tests, or by CI.
func TestEveryCommandIsRunByATest(t *testing.T) {
	run := scripted(t)
	for _, file := range Installation {
		commands, err := Commands(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			run += c.Text + "\n" // TestTheGuide of test/installation
		}
	}
	for _, file := range pages(t) {
		commands, err := Commands(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			if !within(run, c.Text) && NotRun(c) == "" {
				t.Errorf("%v\n\tis run by no script of test/e2e, and not a command of %v", c, Installation)
			}
		}
	}
}

// A target of make that a page names is there.
func TestEveryTargetExists(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(pages(t), "CONTRIBUTING.md", "test/e2e/README.md") {
		commands, err := Commands(root, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range commands {
			words := strings.Fields(c.Text)
			if i := slices.Index(words, "make"); i >= 0 && !strings.Contains(string(makefile), "\n"+words[i+1]+":") {
				t.Errorf("%v\n\tno such target", c)
			}
		}
	}
}

func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"README.md", "SECURITY.md", "charts/pvc-pruner/README.md"}
	for _, file := range found {
		files = append(files, "docs/"+filepath.Base(file))
	}
	return files
}

// scripted is the text of all scripts, each line normalized as commands are. A name that is in capitals on a page is a
// variable there.
func scripted(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(root, "test", "e2e", "testdata"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "#") {
				line = strings.ReplaceAll(line, "''", "'") // a quote within quotes
				all.WriteString(normal(placeholder.ReplaceAllString(line, "$1")) + "\n")
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

var placeholder = regexp.MustCompile(`\$([A-Z]+)\b`)

// within tells whether a command is in a text as a whole, and not as the beginning of another.
func within(text, command string) bool {
	return regexp.MustCompile(regexp.QuoteMeta(command) + `('|"|$| [;|&]|\n)`).MatchString(text)
}
