// Command deploycheck checks deployment files offline, as their consumers would: kustomizations are
// rendered and held to the schemas that Kubernetes, KEDA and the Prometheus operator publish
// (unknown fields are errors), and what they refer to must be there; compose files are loaded as
// `docker compose config` does. It prints every finding, and fails when there is one.
package main

import (
	"context"
	"fmt"
	"os"
)

const usage = `usage: deploycheck kubernetes kustomization-dir
       deploycheck compose compose.yaml [NAME=value…]`

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	var findings []string
	var err error
	switch os.Args[1] {
	case "kubernetes":
		findings, err = checkKubernetes(os.Args[2])
	case "compose":
		findings, err = checkCompose(context.Background(), os.Args[2], os.Args[3:])
	default:
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploycheck:", err)
		os.Exit(2)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		os.Exit(1)
	}
}
