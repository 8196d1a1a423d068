// Program reference writes the tables of docs/reference.md: annotations, flags, Events,
// reasons and metrics, from the comments and help texts in the code. What stands outside
// its marks is written by hand.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

const (
	target = "docs/reference.md"
	keys   = "pruner/policy/keys.go"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	text, err := os.ReadFile(target)
	if err != nil {
		return fmt.Errorf("read the reference: %w", err)
	}
	parts, err := tables(ctx)
	if err != nil {
		return err
	}
	for name, part := range parts {
		if text, err = replace(text, name, part); err != nil {
			return err
		}
	}
	if err := os.WriteFile(target, text, 0o644); err != nil {
		return fmt.Errorf("write the reference: %w", err)
	}
	return nil
}

// tables are the generated parts by name.
func tables(ctx context.Context) (map[string]string, error) {
	controls, err := constants(keys, "Annotations that the owner")
	if err != nil {
		return nil, err
	}
	bookkeeping, err := constants(keys, "Annotations that only pvc-pruner")
	if err != nil {
		return nil, err
	}
	snapshots, err := constants("pruner/policy/volumesnapshot.go", "Labels and annotations")
	if err != nil {
		return nil, err
	}
	events, err := constants("pruner/reporter.go", "Reasons of Events")
	if err != nil {
		return nil, err
	}
	ofSets, err := constants("pruner/policy/reason.go", "Reasons that hold for a whole")
	if err != nil {
		return nil, err
	}
	ofClaims, err := constants("pruner/policy/reason.go", "Reasons that hold for one")
	if err != nil {
		return nil, err
	}
	unjudged, err := constants("pruner/policy/reason.go", "Reasons that only the plugin")
	if err != nil {
		return nil, err
	}
	metrics, err := metricsOf("pruner/metrics.go", "webhook/metrics.go", "certs/expiration.go")
	if err != nil {
		return nil, err
	}
	usage := exec.CommandContext(ctx, "go", "run", "./cmd/pvc-pruner", "--help")
	usage.Env = append(os.Environ(), "TMPDIR=/tmp") // it stands in a default
	help, err := usage.Output()
	if err != nil {
		return nil, fmt.Errorf("ask for --help: %w", err)
	}
	return map[string]string{
		"controls":       table("key|values, default first|meaning", controls, valuesAndMeaning),
		"bookkeeping":    table("key|meaning", bookkeeping, meaning),
		"snapshots":      table("key|meaning", snapshots, meaning),
		"events":         table("reason|when|what to do", events, meaningAndNext),
		"set-reasons":    table("reason|the whole StatefulSet is held because|what to do", ofSets, meaningAndNext),
		"claim-reasons":  table("reason|the claim|what to do", ofClaims, meaningAndNext),
		"plugin-reasons": table("reason|the claim|what to do", unjudged, meaningAndNext),
		"metrics":        table("name|meaning", metrics, meaning),
		"flags":          "```\n" + strings.TrimSpace(string(help)) + "\n```\n",
	}, nil
}

// replace puts a part between its marks.
func replace(text []byte, name, part string) ([]byte, error) {
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end -->\n"
	from := bytes.Index(text, []byte(begin))
	if from < 0 {
		return nil, fmt.Errorf("%s lacks the mark %q", target, strings.TrimSpace(begin))
	}
	from += len(begin)
	length := bytes.Index(text[from:], []byte(end))
	if length < 0 {
		return nil, fmt.Errorf("%s lacks the mark %q behind %q", target, strings.TrimSpace(end), strings.TrimSpace(begin))
	}
	return bytes.Join([][]byte{text[:from], []byte("\n" + part + "\n"), text[from+length:]}, nil), nil
}

// entry is a line of a table.
type entry struct {
	name   string
	values string
	text   string
	next   string
}

// cells are the columns of a table behind the name.
type cells func(entry) []string

func meaning(e entry) []string          { return []string{e.text} }
func valuesAndMeaning(e entry) []string { return []string{e.values, e.text} }
func meaningAndNext(e entry) []string   { return []string{e.text, e.next} }

func table(header string, entries []entry, columns cells) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n%s|\n", strings.ReplaceAll(header, "|", " | "), strings.Repeat("|---", strings.Count(header, "|")+1))
	for _, e := range entries {
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.name, strings.Join(columns(e), " | "))
	}
	return b.String()
}

var spaces = regexp.MustCompile(`\s+`)

// sentence makes one line of a comment or a help text.
func sentence(text string) string {
	text = strings.ReplaceAll(spaces.ReplaceAllString(strings.TrimSpace(text), " "), "|", `\|`)
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
