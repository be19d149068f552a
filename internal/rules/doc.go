// Package rules holds no code: its tests keep the rules of the house that a compiler does not.
package rules

//go:generate go run ./states ../../docs/states.md ../../README.md ../../docs/schema.md
