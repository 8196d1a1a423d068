package command

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"k8s.io/cli-runtime/pkg/printers"
)

// colour is an ANSI escape sequence; "" leaves the text as it is.
type colour string

const (
	plain  colour = ""
	red    colour = "\x1b[31m"
	yellow colour = "\x1b[33m"
	green  colour = "\x1b[32m"
	bold   colour = "\x1b[1m"
)

// paint colours text.
func (c colour) paint(text string) string {
	if c == plain {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

// table prints cells in columns as kubectl does, three spaces apart.
type table struct {
	header []string
	rows   [][]string
	// colours of the rows; a row that lacks one is plain.
	colours map[int]colour
}

func (t *table) add(c colour, cells ...string) {
	if t.colours == nil {
		t.colours = map[int]colour{}
	}
	t.colours[len(t.rows)] = c
	for i := range cells {
		// Names and messages may come from anybody: none may steer the terminal.
		cells[i] = strings.ReplaceAll(printers.EscapeTerminal(cells[i]), "\n", " ")
	}
	t.rows = append(t.rows, cells)
}

// print writes the table; coloured only where that is asked for.
func (t *table) print(w io.Writer, coloured bool) {
	widths := make([]int, len(t.header))
	for _, row := range append([][]string{t.header}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	fmt.Fprintln(w, line(t.header, widths))
	for i, row := range t.rows {
		text := line(row, widths)
		if coloured {
			text = t.colours[i].paint(text)
		}
		fmt.Fprintln(w, text)
	}
}

func line(cells []string, widths []int) string {
	var b strings.Builder
	for i, cell := range cells {
		b.WriteString(cell)
		b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
	}
	return strings.TrimRight(b.String(), " ")
}
