package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema is a JSON Schema; encoding/json writes its keys in order.
type schema map[string]any

const (
	annotationMark  = "@schema "
	descriptionMark = "-- "
)

// generate makes the schema of a chart's values.
func generate(values []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("parse: there are no values")
	}
	root, err := closed("", document.Content[0])
	if err != nil {
		return nil, err
	}
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	// Helm adds these to the values of every chart.
	root["properties"].(schema)["global"] = schema{"type": "object", "description": "Values that charts share, as Helm passes them on; unused here."}
	root["required"] = requiredIn(root["properties"].(schema))
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out.Bytes(), nil
}

// closed describes a group of values, in which no other is accepted.
func closed(path string, group *yaml.Node) (schema, error) {
	properties := schema{}
	for i := 0; i+1 < len(group.Content); i += 2 {
		key, value := group.Content[i], group.Content[i+1]
		described, err := property(strings.TrimPrefix(path+"."+key.Value, "."), key, value)
		if err != nil {
			return nil, err
		}
		properties[key.Value] = described
	}
	return schema{"type": "object", "additionalProperties": false, "properties": properties}, nil
}

// property describes a value, or a group of values.
func property(path string, key, value *yaml.Node) (schema, error) {
	description, demands, err := read(key.HeadComment)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var described schema
	switch {
	case value.Kind == yaml.MappingNode && len(value.Content) > 0 && demands["additionalProperties"] == nil:
		if described, err = closed(path, value); err != nil {
			return nil, err
		}
	case description == "":
		return nil, fmt.Errorf("%s lacks a comment that begins with %q", path, "# "+descriptionMark)
	default:
		if described, err = leaf(value); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if description != "" {
		described["description"] = description
	}
	maps.Copy(described, demands)
	return described, nil
}

// leaf describes a single value by its default.
func leaf(value *yaml.Node) (schema, error) {
	types := map[string]string{"!!str": "string", "!!bool": "boolean", "!!int": "integer", "!!map": "object", "!!seq": "array"}
	name, ok := types[value.Tag]
	if !ok {
		return nil, fmt.Errorf("a default of the type %s has no counterpart", value.Tag)
	}
	described := schema{"type": name}
	if value.Kind == yaml.ScalarNode {
		var content any
		if err := value.Decode(&content); err != nil {
			return nil, fmt.Errorf("decode the default: %w", err)
		}
		described["default"] = content
	}
	return described, nil
}

// read divides a comment into what it says and what it demands.
func read(comment string) (description string, demands schema, err error) {
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
		demand, isDemand := strings.CutPrefix(line, annotationMark)
		text, begins := strings.CutPrefix(line, descriptionMark)
		switch {
		case isDemand:
			if err := yaml.Unmarshal([]byte(demand), &demands); err != nil {
				return "", nil, fmt.Errorf("parse %q: %w", line, err)
			}
		case begins:
			description = text
		case description != "":
			description += " " + line
		}
	}
	return description, demands, nil
}

// requiredIn names the groups that demand values: they must not be taken away as a whole.
func requiredIn(properties schema) []string {
	required := []string{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if properties[name].(schema)["required"] != nil {
			required = append(required, name)
		}
	}
	return required
}
