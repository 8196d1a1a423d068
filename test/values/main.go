// Program values writes the chart's values.schema.json from its values.yaml: types from the defaults, descriptions
// from the comments, and what "@schema" comments demand besides. A value without a comment is an error.
package main

import (
	"fmt"
	"os"
)

const (
	source = "charts/pvc-pruner/values.yaml"
	target = "charts/pvc-pruner/values.schema.json"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "values:", err)
		os.Exit(1)
	}
}

func run() error {
	text, err := os.ReadFile(source)
	if err != nil {
		return fmt.Errorf("read the values: %w", err)
	}
	schema, err := generate(text)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if err := os.WriteFile(target, schema, 0o644); err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	return nil
}
