package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ajo/api/client"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/secret"
)

// defaultAPI is where `ajo dev` and `ajo api` listen unless they are told otherwise.
const defaultAPI = "http://127.0.0.1:8080"

// trigger are the flags of `ajo trigger payment`.
type trigger struct {
	bank, api, key    string
	account, nuban    string
	amount            sumFlag
	sender, narration string
}

// newTriggerCmd is `ajo trigger`, which makes things happen at the fake bank.
func newTriggerCmd(env *environment) *cobra.Command {
	return group("trigger", "Make something happen at the fake bank, to test your program", newTriggerPaymentCmd(env))
}

func newTriggerPaymentCmd(env *environment) *cobra.Command {
	t := trigger{amount: sumFlag{new(money.Must("5000.00"))}}
	cmd := &cobra.Command{
		Use:   "payment",
		Short: "Pay: send money to a virtual account at the fake bank",
		Long: `Sends money to a virtual account at the fake bank, which sends its signed event to the service, and prints the result.
--account is your reference of the account, and needs your API key in AJO_API_KEY, because the bank does not know your
references. With the key alone, the money goes to the account that you opened last. Without a key it goes to the bank's
only account; if there are several, name one: they may belong to other tenants.`,
		Example: "  ajo trigger payment --amount 5000\n  AJO_API_KEY=ajo_… ajo trigger payment --account customer-1 --amount 1250.50 --sender \"Bola Ade\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.key = env.getenv("AJO_API_KEY")
			if !cmd.Flags().Changed("bank") {
				t.bank = env.url("AJO_PROVIDER_URL", t.bank)
			}
			if !cmd.Flags().Changed("api") {
				t.api = env.url("AJO_HTTP_ADDR", t.api)
			}
			return t.pay(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.account, "account", "", "your reference of the account (its externalRef)")
	f.StringVar(&t.nuban, "nuban", "", "instead of --account: its number, 10 digits")
	addFlag(cmd, &t.amount, "amount", "above zero, with at most two decimals")
	f.StringVar(&t.sender, "sender", "Bola Ade", "who pays")
	f.StringVar(&t.narration, "narration", "", "the payer's words")
	f.StringVar(&t.bank, "bank", "http://127.0.0.1:8090", "where the fake bank is")
	f.StringVar(&t.api, "api", defaultAPI, "where the API is, which knows your accounts")
	cmd.MarkFlagsMutuallyExclusive("account", "nuban")
	return cmd
}

// pay finds the account, pays, and prints the result of the bank's event.
func (t trigger) pay(ctx context.Context, out io.Writer) error {
	if !t.amount.sum.IsPositive() {
		return refuse("amount", "above zero, such as 1250.50", t.amount.String())
	}
	bank := fakebank.Remote{URL: t.bank}
	to, err := t.payee(ctx, bank)
	if err != nil {
		return err
	}
	tx, event, err := bank.Pay(ctx, fakebank.Payment{NUBAN: to.number, Amount: *t.amount.sum, SenderName: t.sender, Narration: t.narration})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, printable(fmt.Sprintf("%s paid NGN %s to %s; the bank keeps a fee of %s. Transaction %s.", tx.SenderName, tx.Amount, to, tx.Fee, tx.ID)))
	fmt.Fprintln(out, printable(eventResult(event)))
	return nil
}

// payee is the account that is paid.
type payee struct{ number, holder string }

// String names the account for people.
func (p payee) String() string {
	if p.holder == "" {
		return p.number
	}
	return p.number + " (" + p.holder + ")"
}

// payee finds the account that is paid. It never guesses: the newest account of the bank may be
// another tenant's.
func (t trigger) payee(ctx context.Context, bank fakebank.Remote) (payee, error) {
	switch {
	case t.nuban != "":
		return payee{number: t.nuban}, nil
	case strings.HasPrefix(t.key, string(secret.TestKey)):
		// its accounts are at another bank, where these numbers may be others'
		return payee{}, errors.New("AJO_API_KEY is a test-mode key: test-mode accounts do not exist at this bank; call POST /v1/test/payments with it")
	case t.key != "":
		return t.own(ctx)
	case t.account != "":
		return payee{}, errors.New("--account needs your API key in AJO_API_KEY; or give the account's number as --nuban")
	}
	open, err := bank.OpenAccounts(ctx)
	switch {
	case err != nil:
		return payee{}, err
	case len(open) == 0:
		return payee{}, errors.New("the bank has no virtual account that takes payments: open one with POST /v1/accounts")
	case len(open) == 1:
		return payee{number: open[0].NUBAN, holder: open[0].Name}, nil
	}
	const most = 5
	var lines []string
	for _, a := range open[:min(len(open), most)] {
		lines = append(lines, fmt.Sprintf("  --nuban %s   %s", a.NUBAN, printable(a.Name)))
	}
	if len(open) > most {
		lines = append(lines, fmt.Sprintf("  and %d more", len(open)-most))
	}
	return payee{}, fmt.Errorf("the bank has %d accounts that take payments: name one, or set AJO_API_KEY, with which it is your newest. The newest of the bank:\n%s",
		len(open), strings.Join(lines, "\n"))
}

// own is the account of the key's tenant that --account names, else the one that was opened last.
func (t trigger) own(ctx context.Context) (payee, error) {
	c, err := client.New(client.Options{URL: t.api, Key: t.key})
	if err != nil {
		return payee{}, fmt.Errorf("--api: %w", err)
	}
	if t.account != "" {
		a, err := c.Account(ctx, t.account)
		return payee{a.BankAccountNumber, a.BankAccountName}, err
	}
	list, err := c.ListAccounts(ctx, client.AccountFilter{Status: "active"}, client.Page{Limit: 1})
	if err != nil {
		return payee{}, err
	}
	if len(list.Accounts) == 0 {
		return payee{}, errors.New("you have no account that takes payments: open one with POST /v1/accounts")
	}
	return payee{list.Accounts[0].BankAccountNumber, list.Accounts[0].BankAccountName}, nil
}

// eventResult is the result of the bank's event.
func eventResult(event *fakebank.Webhook) string {
	switch {
	case event == nil || event.State == fakebank.HookMissing:
		return "The bank sends no event (a fault is switched on there): reconciliation finds the payment."
	case event.State == fakebank.HookNoURL:
		return "The bank has no URL to send its event to."
	case len(event.Attempts) == 0:
		return "The bank's event " + event.EventType + " is on its way."
	}
	last := event.Attempts[len(event.Attempts)-1]
	answer := cmp.Or(last.Error, "answered "+strconv.Itoa(last.Status))
	if event.State == fakebank.HookDelivered {
		return "The bank's event " + event.EventType + " was " + answer + "."
	}
	return "The bank's event " + event.EventType + " was refused (" + answer + "); the bank sends it again."
}
