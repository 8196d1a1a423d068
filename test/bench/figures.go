package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one line of the results.
type figure struct {
	name  string
	value float64
	unit  string
	// base is what the ratio is to; 0: there is none.
	base float64
}

// line is the machine-readable form.
func (f figure) line() string {
	text := fmt.Sprintf("bench %s %.4g %s", f.name, f.value, f.unit)
	if f.base != 0 {
		text += fmt.Sprintf(" ratio=%.2f", f.value/f.base)
	}
	return text
}

// printTable prints the figures for people.
func printTable(out io.Writer, figures []figure) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range figures {
		ratio := ""
		if f.base != 0 {
			ratio = fmt.Sprintf("%.2f", f.value/f.base)
		}
		fmt.Fprintf(table, "%s\t%.4g\t%s\t%s\n", f.name, f.value, f.unit, ratio)
	}
	return table.Flush()
}

// lines is the content of the results file.
func lines(header []string, figures []figure) string {
	var text strings.Builder
	for _, h := range header {
		text.WriteString("# " + h + "\n")
	}
	for _, f := range figures {
		text.WriteString(f.line() + "\n")
	}
	return text.String()
}

// quantile is the smallest value that at least the share q of the values does not exceed; 0 of none.
func quantile[T cmp.Ordered](values []T, q float64) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
