// Command states draws every state machine from its transition table into one markdown file (`make generate`).
package main

import (
	"fmt"
	"os"
	"strings"

	"ajo/internal/account"
	"ajo/internal/payment"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/ledger"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: states FILE")
		os.Exit(2)
	}
	var b strings.Builder
	b.WriteString("# State machines\n\nDrawn from the transition tables in the code by `make generate`; the schema enforces the same moves.\n")
	for _, m := range []struct{ name, picture string }{
		{ledger.Transitions.Name, ledger.Transitions.Mermaid()},
		{payment.Transitions.Name, payment.Transitions.Mermaid()},
		{webhook.Transitions.Name, webhook.Transitions.Mermaid()},
		{account.Transitions.Name, account.Transitions.Mermaid()},
		{transfer.Transitions.Name, transfer.Transitions.Mermaid()},
		{tenant.KYCTransitions.Name, tenant.KYCTransitions.Mermaid()},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n```mermaid\n%s```\n", m.name, m.picture)
	}
	if err := os.WriteFile(os.Args[1], []byte(b.String()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "states:", err)
		os.Exit(1)
	}
}
