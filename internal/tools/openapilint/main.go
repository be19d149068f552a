// Command openapilint checks an OpenAPI document by the rules of a configuration file, prints every
// finding with its place, and fails when there is one: make lint runs it on api/openapi.yaml.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/speakeasy-api/openapi/linter"
	"github.com/speakeasy-api/openapi/openapi"
	rules "github.com/speakeasy-api/openapi/openapi/linter"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: openapilint config.yaml document.yaml")
		os.Exit(2)
	}
	findings, err := lint(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "openapilint:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}

// lint returns what is wrong with the document: what no OpenAPI document may have, and what the
// rules find.
func lint(ctx context.Context, configPath, path string) ([]error, error) {
	config, err := linter.LoadConfigFromFile(configPath)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	doc, invalid, err := openapi.Unmarshal(ctx, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	rule, err := rules.NewLinter(config)
	if err != nil {
		return nil, err
	}
	out, err := rule.Lint(ctx, linter.NewDocumentInfo(doc, path), invalid, nil)
	if err != nil {
		return nil, err
	}
	return out.Results, nil
}
