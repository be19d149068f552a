package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"ajo/api/client"
	"ajo/internal/fakebank"
	"ajo/internal/money"
)

// defaultAPI is where `ajo dev` and `ajo api` listen unless they are told otherwise.
const defaultAPI = "http://127.0.0.1:8080"

// trigger is what `ajo trigger payment` is told.
type trigger struct {
	bank, api, key    string
	account, nuban    string
	amount            string
	sender, narration string
}

// newTriggerCmd is `ajo trigger`: things that happen in the world, made to happen at the fake bank.
func newTriggerCmd() *cobra.Command {
	return group("trigger", "Make something happen at the fake bank, to see what your program does", newTriggerPaymentCmd())
}

func newTriggerPaymentCmd() *cobra.Command {
	var t trigger
	cmd := &cobra.Command{
		Use:   "payment",
		Short: "Play a payer: send money to a virtual account at the fake bank",
		Long: `Sends money to a virtual account at the fake bank, which tells the service by its signed event, and prints what
happened. Without --account and --nuban the money goes to the account that was opened last. --account needs your API
key in AJO_API_KEY, as the bank does not know your references.`,
		Example: "  ajo trigger payment --amount 5000\n  AJO_API_KEY=ajo_… ajo trigger payment --account customer-1 --amount 1250.50 --sender \"Bola Ade\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.key = os.Getenv("AJO_API_KEY")
			return t.pay(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&t.account, "account", "", "your reference of the account (its externalRef)")
	f.StringVar(&t.nuban, "nuban", "", "or its number, 10 digits")
	f.StringVar(&t.amount, "amount", "5000.00", "naira, with at most two decimals")
	f.StringVar(&t.sender, "sender", "Bola Ade", "who pays")
	f.StringVar(&t.narration, "narration", "", "the payer's words")
	f.StringVar(&t.bank, "bank", "http://127.0.0.1:8090", "where the fake bank is")
	f.StringVar(&t.api, "api", defaultAPI, "where the API is; only --account asks it")
	cmd.MarkFlagsMutuallyExclusive("account", "nuban")
	return cmd
}

// pay finds the account, pays, and says what became of the bank's event.
func (t trigger) pay(ctx context.Context, out io.Writer) error {
	amount, err := money.Parse(t.amount)
	if err != nil || !amount.IsPositive() {
		return errors.New("--amount must be above zero, in naira with at most two decimals, as 5000 or 1250.50")
	}
	bank := fakebank.Remote{URL: t.bank}
	number, err := t.number(ctx, bank)
	if err != nil {
		return err
	}
	tx, event, err := bank.Pay(ctx, fakebank.Payment{NUBAN: number, Amount: amount, SenderName: t.sender, Narration: t.narration})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, printable(fmt.Sprintf("%s paid NGN %s to %s; the bank keeps a fee of %s. Transaction %s.", tx.SenderName, tx.Amount, tx.NUBAN, tx.Fee, tx.ID)))
	fmt.Fprintln(out, printable(told(event)))
	return nil
}

// number is the number of the account that is paid.
func (t trigger) number(ctx context.Context, bank fakebank.Remote) (string, error) {
	switch {
	case t.nuban != "":
		return t.nuban, nil
	case t.account == "":
		a, err := bank.NewestAccount(ctx)
		if errors.Is(err, fakebank.ErrNoAccount) {
			return "", errors.New("the bank has no virtual account that takes payments: open one with POST /v1/accounts")
		}
		return a.NUBAN, err
	case t.key == "":
		return "", errors.New("--account needs your API key in AJO_API_KEY; or give the account's number as --nuban")
	}
	c, err := client.New(client.Options{URL: t.api, Key: t.key})
	if err != nil {
		return "", fmt.Errorf("--api: %w", err)
	}
	a, err := c.Account(ctx, t.account)
	return a.BankAccountNumber, err
}

// told says what became of the bank's event.
func told(event *fakebank.Webhook) string {
	switch {
	case event == nil || event.State == fakebank.HookMissing:
		return "The bank sends no event (a fault is switched on there): reconciliation finds the payment."
	case event.State == fakebank.HookNoURL:
		return "The bank has nowhere to send its event to."
	case len(event.Attempts) == 0:
		return "The bank's event " + event.EventType + " is on its way."
	}
	last := event.Attempts[len(event.Attempts)-1]
	answer := cmp.Or(last.Error, "answered "+strconv.Itoa(last.Status))
	if event.State == fakebank.HookDelivered {
		return "The bank's event " + event.EventType + " was " + answer + "."
	}
	return "The bank's event " + event.EventType + " was not taken (" + answer + "); the bank sends it again."
}
