package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Forms of output.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
)

// output is the value of -o.
type output struct {
	form    string
	accepts []string
}

// addFlag adds -o, which takes the forms that are given; the first is the default.
func (o *output) addFlag(cmd *cobra.Command, forms ...string) {
	o.accepts = forms
	cmd.Flags().StringVarP(&o.form, "output", "o", forms[0], "`form` of the output: "+strings.Join(forms, ", "))
	err := cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return forms, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // only if the flag did not exist
	}
}

func (o *output) validate() error {
	if slices.Contains(o.accepts, o.form) {
		return nil
	}
	return usagef("--output: %q is not accepted, use one of %s", o.form, strings.Join(o.accepts, ", "))
}

// structured says whether the output is for programs to read as a whole.
func (o *output) structured() bool { return o.form == outputJSON || o.form == outputYAML }

// encode writes v as JSON or YAML.
func (o *output) encode(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "    ")
	if err == nil && o.form == outputYAML {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(string(data), "\n"))
	return err
}
