package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// prefix is that of all annotations, which the code adds to each.
const prefix = "pvc-pruner.io/"

// constants are those of the group whose comment begins so. Each is explained by the
// comment above it, without its name, or by the one at the end of its line; what follows
// "Values:" is what it takes, and what follows "Next:" what its reader can do.
func constants(path, group string) ([]entry, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	for _, d := range file.Decls {
		declaration, ok := d.(*ast.GenDecl)
		if !ok || declaration.Tok != token.CONST || !strings.HasPrefix(declaration.Doc.Text(), group) {
			continue
		}
		return entries(path, declaration)
	}
	return nil, fmt.Errorf("%s has no constants under the comment %q", path, group)
}

func entries(path string, declaration *ast.GenDecl) ([]entry, error) {
	var all []entry
	for _, s := range declaration.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return nil, fmt.Errorf("%s: a constant without a value of its own", path)
		}
		value, err := constant(spec.Values[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, spec.Names[0].Name, err)
		}
		text, next, _ := strings.Cut(spec.Doc.Text()+spec.Comment.Text(), "Next:")
		text, values, _ := strings.Cut(text, "Values:")
		text = strings.TrimPrefix(strings.TrimPrefix(text, spec.Names[0].Name+" "), "is the ")
		e := entry{name: value, text: sentence(text), values: sentence(values), next: sentence(next)}
		if e.text == "" {
			return nil, fmt.Errorf("%s: %s lacks a comment", path, spec.Names[0].Name)
		}
		all = append(all, e)
	}
	return all, nil
}

// constant is the text of a literal, or of one behind Prefix.
func constant(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "Prefix" && e.Op == token.ADD {
			text, err := constant(e.Y)
			return prefix + text, err
		}
	}
	return "", fmt.Errorf("%T is neither a text nor Prefix and a text", e)
}

// metricsOf finds names, help texts and labels where metrics are made.
func metricsOf(paths ...string) ([]entry, error) {
	var all []entry
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if e, ok := metric(call); ok {
					all = append(all, e)
				}
			}
			return true
		})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no metrics in %v", paths)
	}
	return all, nil
}

// metric reads prometheus.NewX(Opts{Name, Help}, labels) and prometheus.NewDesc(name, help, labels, …).
func metric(call *ast.CallExpr) (e entry, ok bool) {
	selector, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector || !strings.HasPrefix(selector.Sel.Name, "New") || len(call.Args) == 0 {
		return e, false
	}
	labels := 1
	switch first := call.Args[0].(type) {
	case *ast.CompositeLit:
		e.name, e.text = field(first, "Name"), field(first, "Help")
	case *ast.BasicLit:
		if len(call.Args) < 3 {
			return e, false
		}
		e.name, _ = constant(first)
		e.text, _ = constant(call.Args[1])
		labels = 2
	}
	if labels < len(call.Args) {
		e.name += labelsOf(call.Args[labels])
	}
	e.text = sentence(e.text)
	return e, strings.HasPrefix(e.name, "pvc_pruner_") && e.text != ""
}

func field(literal *ast.CompositeLit, name string) string {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == name {
				text, _ := constant(pair.Value)
				return text
			}
		}
	}
	return ""
}

func labelsOf(e ast.Expr) string {
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	var names []string
	for _, element := range literal.Elts {
		name, _ := constant(element)
		names = append(names, name)
	}
	return "{" + strings.Join(names, ",") + "}"
}
