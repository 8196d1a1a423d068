package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// properties generates the schema of values and returns what it says of them.
func properties(t *testing.T, values string) map[string]any {
	t.Helper()
	text, err := generate([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		AdditionalProperties bool
		Properties           map[string]any
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.AdditionalProperties {
		t.Error("values that the chart does not know are accepted")
	}
	delete(got.Properties, "global")
	return got.Properties
}

func TestASchemaDemandsWhatTheValuesSay(t *testing.T) {
	for name, tt := range map[string]struct {
		values string
		want   map[string]any
	}{
		"the type of the default": {
			"# -- How many.\nn: 2",
			map[string]any{"n": map[string]any{"type": "integer", "default": 2.0, "description": "How many."}},
		},
		"a comment of several lines": {
			"# -- One,\n# two.\nx: true",
			map[string]any{"x": map[string]any{"type": "boolean", "default": true, "description": "One, two."}},
		},
		"what is demanded besides": {
			"# @schema {enum: [a, b]}\n# -- Which.\nx: a",
			map[string]any{"x": map[string]any{"type": "string", "default": "a", "description": "Which.", "enum": []any{"a", "b"}}},
		},
		"no others in a group, whose comment is optional": {
			"# @schema {required: [y]}\nx:\n  # -- Which.\n  y: a",
			map[string]any{"x": map[string]any{
				"type": "object", "additionalProperties": false, "required": []any{"y"},
				"properties": map[string]any{"y": map[string]any{"type": "string", "default": "a", "description": "Which."}},
			}},
		},
		"anything in an object that is empty by default": {
			"# -- Labels.\nx: {}",
			map[string]any{"x": map[string]any{"type": "object", "description": "Labels."}},
		},
		"anything in an object that is open": {
			"# @schema {additionalProperties: true}\n# -- Resources.\nx: {cpu: 1}",
			map[string]any{"x": map[string]any{"type": "object", "additionalProperties": true, "description": "Resources."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, properties(t, tt.values)); diff != "" {
				t.Errorf("schemas differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatCannotBeDescribedIsAnError(t *testing.T) {
	for values, want := range map[string]string{
		"x: 1":                               "x lacks a comment",
		"# Not for the reader.\nx: 1":        "x lacks a comment",
		"a:\n  # -- B.\n  b: 1\n  c: 1":      "a.c lacks a comment",
		"# -- X.\nx:":                        "x: a default of the type !!null",
		"# @schema {enum: [}\n# -- X.\nx: 1": "x: parse",
		"[]":                                 "no values",
	} {
		if _, err := generate([]byte(values)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one that contains %q", values, err, want)
		}
	}
}
