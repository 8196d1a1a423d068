// Package docs finds the commands that the documentation shows, so that tests can run each of them.
package docs

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Installation are the pages whose commands the installation tests run, one after the other.
var Installation = []string{"docs/install.md", "charts/pvc-pruner/README.md"}

// Command is one that a page shows.
type Command struct {
	// File is the page, as it was asked for, and Line where the command begins.
	File string
	Line int
	// Section is the heading above it.
	Section string
	// Text is the command in one line, without prompt and comment.
	Text string
	// Inline: it stands within a sentence or a table.
	Inline bool
}

func (c Command) String() string { return fmt.Sprintf("%s:%d: %s", c.File, c.Line, c.Text) }

var (
	inline  = regexp.MustCompile("`((?:kubectl|helm) [^ `]+ (?:\\\\\\||[^`])+)`")
	comment = regexp.MustCompile(`(^|\s{2,})#.*$`)
	space   = regexp.MustCompile(`\s+`)
)

// Commands are those of a page below the folder root, in its order: each line of a block of the language "sh", each line
// of one of "console" that begins with a prompt, and each kubectl or helm command within the text that
// has arguments: `helm upgrade` is a name.
func Commands(root, file string) ([]Command, error) {
	page, err := os.Open(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	defer page.Close() //nolint:errcheck // It was only read.
	r := reader{at: Command{File: file}}
	lines := bufio.NewScanner(page)
	for number := 1; lines.Scan(); number++ {
		r.read(number, lines.Text())
	}
	return r.found, lines.Err()
}

// reader reads a page line by line.
type reader struct {
	at       Command // the next one, as far as it is known
	found    []Command
	inBlock  bool
	language string // of the block
	begun    string // of a command that goes on in the next line
}

func (r *reader) read(number int, line string) {
	fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
	switch {
	case isFence:
		r.inBlock, r.language = !r.inBlock, fence
	case r.inBlock:
		r.readBlock(number, line)
	case strings.HasPrefix(line, "#"):
		r.at.Section = strings.TrimLeft(line, "# ")
	default:
		for _, match := range inline.FindAllStringSubmatch(line, -1) {
			r.found = append(r.found, Command{
				File: r.at.File, Line: number, Section: r.at.Section, Inline: true,
				Text: normal(strings.ReplaceAll(match[1], `\|`, "|")), // as tables need it
			})
		}
	}
}

func (r *reader) readBlock(number int, line string) {
	text, isPrompt := strings.CutPrefix(line, "$ ")
	if r.language != "sh" && (r.language != "console" || !isPrompt && r.begun == "") {
		return
	}
	if r.begun == "" {
		r.at.Line = number
	}
	text = r.begun + comment.ReplaceAllString(text, "")
	rest, goesOn := strings.CutSuffix(text, `\`)
	if r.begun = ""; goesOn {
		r.begun = rest
		return
	}
	if r.at.Text = normal(text); r.at.Text != "" {
		r.found = append(r.found, r.at)
	}
}

func normal(text string) string { return strings.TrimSpace(space.ReplaceAllString(text, " ")) }

// elsewhere are the beginnings of commands that no test runs as they stand, with the reason.
var elsewhere = map[string]string{
	"make ":           "CI runs the targets",
	"bin/pvc-pruner ": "runs until it is stopped; the scripts run it so",
	"gcloud ":         "needs that cloud",
	"docker ":         "needs a registry; the image is built and loaded by the installation tests",
	"kubectl ARGS":    "explains a command of the scripts",
}

// NotRun tells why no test runs a command, or nothing.
func NotRun(c Command) string {
	for beginning, reason := range elsewhere {
		if strings.HasPrefix(c.Text, beginning) {
			return reason
		}
	}
	return ""
}
