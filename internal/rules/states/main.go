// Command states writes what the documents have from the code (`make generate`): the pictures of
// the state machines, from their transition tables, the README's table of settings, and the schema.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"ajo/internal/account"
	"ajo/internal/config"
	"ajo/internal/customer"
	"ajo/internal/payment"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/ledger"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: states STATES.md README.md SCHEMA.md")
		os.Exit(2)
	}
	tables, err := schema(context.Background())
	if err == nil {
		err = errors.Join(os.WriteFile(os.Args[1], []byte(states()), 0o644), settings(os.Args[2]), os.WriteFile(os.Args[3], []byte(tables), 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "states:", err)
		os.Exit(1)
	}
}

// settings puts the table of settings where the README has the old one.
func settings(path string) error {
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const head, foot = "| name | meaning | default |\n", "\n\n## "
	before, rest, ok := strings.Cut(string(readme), head)
	_, after, ok2 := strings.Cut(rest, foot)
	if !ok || !ok2 {
		return errors.New("the README has no table of settings")
	}
	return os.WriteFile(path, []byte(before+strings.TrimSuffix(config.Table(), "\n")+foot+after), 0o644)
}

// machine is a state machine, and the column that has its states.
type machine struct{ table, column, name, picture string }

var machines = []machine{
	{"ledger_entries", "status", ledger.Transitions.Name, ledger.Transitions.Mermaid()},
	{"holds", "status", ledger.HoldTransitions.Name, ledger.HoldTransitions.Mermaid()},
	{"inbound_events", "status", payment.Transitions.Name, payment.Transitions.Mermaid()},
	{"recalls", "status", payment.RecallTransitions.Name, payment.RecallTransitions.Mermaid()},
	{"deliveries", "status", webhook.Transitions.Name, webhook.Transitions.Mermaid()},
	{"accounts", "status", account.Transitions.Name, account.Transitions.Mermaid()},
	{"transfers", "status", transfer.Transitions.Name, transfer.Transitions.Mermaid()},
	{"customers", "kyc_status", customer.KYCTransitions.Name, customer.KYCTransitions.Mermaid()},
	{"tenants", "kyc_status", tenant.KYCTransitions.Name, tenant.KYCTransitions.Mermaid()},
}

func states() string {
	var b strings.Builder
	b.WriteString("# State machines\n\nDrawn from the transition tables in the code by `make generate`; the schema enforces the same moves.\n")
	for _, m := range machines {
		fmt.Fprintf(&b, "\n## %s\n\n```mermaid\n%s```\n", m.name, m.picture)
	}
	return b.String()
}
