package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/ledger"
)

// toolRun runs one of the operators' commands, and returns what it printed and its exit code.
func toolRun(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	root := newRootCmd()
	root.ResetCommands()
	root.AddCommand(newToolCmds(func(name string) string { return env[name] })...)
	var out bytes.Buffer
	var errOut testenv.Log // go-redis, whose logger is the process's, may write here later
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	var exit exitCode
	switch {
	case errors.As(err, &exit):
		code = int(exit)
	case err != nil:
		code = 1
		fmt.Fprint(&errOut, err)
	}
	return out.String(), errOut.String(), code
}

// bankSettings are what connects an operator's commands with the fake bank.
func bankSettings(env map[string]string, url string) {
	env["AJO_PROVIDER_URL"], env["AJO_PROVIDER_ACCOUNT_ID"] = url, fakebank.DefaultAccountID
	env["AJO_PROVIDER_CLIENT_ID"], env["AJO_PROVIDER_CLIENT_SECRET"] = fakebank.DefaultClientID, fakebank.DefaultClientSecret
}

// counter is a database with one account, its bank, and a payment there of which no event came. The
// commands do not know the bank before connect.
type counter struct {
	*testenv.Env
	bank    *fakebank.Bank
	client  provider.Bank
	env     map[string]string
	account uuid.UUID
	number  string // of the account
	txn     fakebank.Transaction
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	e := testenv.New(t)
	c := openCounter(e, fakebank.New(fakebank.Options{}), e.Account(e.Tenant(), "customer-1"))
	c.env = map[string]string{"AJO_DATABASE_URL": e.DatabaseURL}
	return c
}

// openCounter starts the bank, which opens the account, and gets the payment.
func openCounter(e *testenv.Env, bank *fakebank.Bank, account uuid.UUID) *counter {
	e.T.Helper()
	c := &counter{Env: e, bank: bank, account: account}
	_, err := bank.Start("127.0.0.1:0")
	require.NoError(e.T, err)
	e.T.Cleanup(func() { _ = bank.Close() })
	c.client = testenv.BankClient(e.T, bank, clock.System)
	opened, err := c.client.CreateAccount(e.T.Context(), provider.NewAccount{Ref: account.String(), Name: "Ada Stores"})
	require.NoError(e.T, err)
	c.number = opened.Number
	e.Exec(`UPDATE accounts SET bank_account_number = $2 WHERE id = $1`, account, c.number)
	c.txn = c.paid()
	return c
}

// paid is another payment, of which no event came.
func (c *counter) paid() fakebank.Transaction {
	c.T.Helper()
	txn, err := c.bank.Pay(c.T.Context(), fakebank.Payment{NUBAN: c.number, Amount: money.Must("5000.00"), Silent: true})
	require.NoError(c.T, err)
	return txn
}

// unposted stores the event of a payment, which could not be posted.
func (c *counter) unposted(txn fakebank.Transaction) uuid.UUID {
	c.T.Helper()
	id := uuid.Must(uuid.NewV7())
	c.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, error_message,
			occurred_at, digest, received_at, processed_at)
		VALUES ($1, 'webhook', true, true, $1::uuid::text, $2, 'payment_success', 'failed', 'processing_error', 'no fee', $3, sha256(''), $3, $3)`, id, txn.ID, txn.Time)
	c.KeyEvents()
	return id
}

// misdirected stores the event of a payment that no account was found for.
func (c *counter) misdirected(txn fakebank.Transaction) uuid.UUID {
	c.T.Helper()
	id, ctx := uuid.Must(uuid.NewV7()), c.T.Context()
	c.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, error_message, amount, fee, currency,
			occurred_at, digest, received_at, processed_at)
		VALUES ($1, 'webhook', true, true, $1::uuid::text, $2, 'payment_success', 'failed', 'misdirected', 'no account has this alias', 5000, 25, 'NGN', $3, sha256(''), $3, $3)`, id, txn.ID, txn.Time)
	c.KeyEvents()
	require.NoError(c.T, pg.InTx(ctx, c.Pool, func(tx pg.Tx) error {
		return ledger.PostMovements(ctx, tx, txn.Time, []ledger.Movement{{
			Account: ledger.Suspense, Direction: ledger.Credit, Amount: money.Must("4975.00"), Kind: ledger.KindSuspense,
			TransactionGroupID: ledger.GroupOf(ledger.KindSuspense, ledger.Suspense, id),
		}})
	}))
	return id
}

// takenBack stores the event of a payment and its entry, which the bank's word has reversed.
func (c *counter) takenBack(txn fakebank.Transaction) uuid.UUID {
	return c.posted(txn, ledger.EventReverse)
}

// posted stores the event of a payment and its entry, which was moved without the bank's record.
func (c *counter) posted(txn fakebank.Transaction, move ledger.Event) uuid.UUID {
	c.T.Helper()
	id, ctx := uuid.Must(uuid.NewV7()), c.T.Context()
	c.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, amount, fee, currency,
			tenant_id, account_id, occurred_at, digest, received_at, processed_at, last_error)
		SELECT $1, 'webhook', true, true, $1::uuid::text, $2, 'payment_success', 'processed', 'payment', 5000, 25, 'NGN', tenant_id, id, $3, sha256(''), $3, $3, 'the bank says failed'
		FROM accounts WHERE id = $4`, id, txn.ID, txn.Time, c.account)
	c.KeyEvents()
	require.NoError(c.T, pg.InTx(ctx, c.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(ctx, tx, txn.Time, []ledger.Posting{{AccountID: c.account, Amount: money.Must("4975.00"), Fee: money.Must("25.00"), ProviderTxnRef: txn.ID, TransactionGroupID: id}})
		if err != nil {
			return err
		}
		_, err = ledger.MoveEntries(ctx, tx, txn.Time, []ledger.Move{{TransactionGroupID: id, Direction: ledger.Credit, Event: move}})
		return err
	}))
	return id
}

// unconnected runs a command that needs the bank, and then tells the commands of it.
func (c *counter) unconnected(t *testing.T, args ...string) {
	t.Helper()
	_, stderr, code := toolRun(t, c.env, args...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "AJO_PROVIDER_URL is not set")
	bankSettings(c.env, c.bank.URL())
}

// The commands ask the bank no faster than AJO_PROVIDER_POST_RATE says: four pages at two a second.
func TestReconcileKeepsTheBanksLimit(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	bankSettings(c.env, c.bank.URL())
	for range 3 * 50 { // a page has 50
		c.paid()
	}
	c.env["AJO_PROVIDER_POST_RATE"] = "2"
	before, begun := c.bank.Calls("POST /v1/transactions/accounts"), time.Now()
	_, stderr, _ := toolRun(t, c.env, "reconcile", "--from", "2h")
	require.Equal(t, before+4, c.bank.Calls("POST /v1/transactions/accounts"), stderr)
	require.Greater(t, time.Since(begun), time.Second)

	c.env["AJO_PROVIDER_POST_RATE"] = "many"
	_, stderr, code := toolRun(t, c.env, "reconcile", "--from", "2h")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "AJO_PROVIDER_POST_RATE")
}

func TestReconcileCommand(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	bank := fakebank.New(fakebank.Options{})
	url, err := bank.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = bank.Close() })
	env := map[string]string{"AJO_DATABASE_URL": e.DatabaseURL}
	_, stderr, code := toolRun(t, env, "reconcile", "--from", "2h")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "AJO_PROVIDER_URL is not set")
	bankSettings(env, url)

	out, _, code := toolRun(t, env, "reconcile", "--from", "2h")
	require.Zero(t, code)
	require.Contains(t, out, "Bank and books agree.")
	require.Contains(t, out, "no event with the wallet's balance has come yet")

	// An entry that the bank does not know.
	account, id := e.Account(e.Tenant(), "customer-1"), uuid.Must(uuid.NewV7())
	at := time.Now().UTC().Add(-time.Hour)
	e.Exec(`INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, fee, status, provider_txn_ref, transaction_group_id, running_balance, created_at)
		SELECT $1, tenant_id, id, 1, 'credit', 4975, 25, 'provisional', 'T-1', $1, 4975, $3 FROM accounts WHERE id = $2`, id, account, at)
	e.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category, amount, fee, currency,
			occurred_at, account_id, digest, received_at, processed_at)
		VALUES ($1, 'webhook', true, true, 'r-1', 'T-1', 'payment_success', 'processed', 'payment', 5000, 25, 'NGN', $3, $2, sha256(''), $3, $3)`, id, account, at)
	e.KeyEvents()
	out, _, code = toolRun(t, env, "reconcile", "--from", "2h")
	require.Equal(t, 1, code)
	require.Regexp(t, `unknown_at_bank +T-1 +`+id.String()+` +- +- +5000.00 +the bank neither lists it nor knows its id`, out)
	require.Regexp(t, `books +provisional +1 +5000.00 +25.00`, out)

	out, _, code = toolRun(t, env, "reconcile", "--from", "2h", "--json")
	require.Equal(t, 1, code)
	var r reconcile.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, 1, r.Counts[reconcile.UnknownAtBank])

	out, _, code = toolRun(t, env, "reconcile", "show", r.ID.String(), "--csv")
	require.Zero(t, code)
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+8+1)
	require.Equal(t, []string{"exception", "", "unknown_at_bank", "1", "", "", "5000.00", "25.00", "T-1"}, lines[9][:9])
	out, _, _ = toolRun(t, env, "reconcile", "list")
	require.Regexp(t, r.ID.String()+` +manual .* finished +0 +1`, out)

	out, _, code = toolRun(t, env, "reconcile", "open")
	require.Zero(t, code)
	require.Regexp(t, `payment +T-1 .* -4975.00 .* - +unknown_at_bank: the bank neither lists it nor knows its id`, out)
	_, stderr, code = toolRun(t, env, "reconcile", "dismiss", "T-1", "--reason", "ticket 1")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "--yes")
	out, _, code = toolRun(t, env, "reconcile", "dismiss", "T-1", "--reason", "ticket 1", "--yes")
	require.Zero(t, code)
	require.Contains(t, out, "Dismissed: unknown_at_bank")
	out, _, code = toolRun(t, env, "reconcile", "--from", "2h")
	require.Zero(t, code, "it is known")
	require.Contains(t, out, "Bank and books agree.")

	// What only the wallet's comparison needs is not under way at the bank.
	for ref, effect := range map[string]string{"AJO-ended": "200.00", "AJO-waits": "0"} {
		e.Exec(`INSERT INTO reconcile_items (id, kind, ref, effect, since, found_at, due_at) VALUES ($1, 'payout', $2, $3, $4, $4, $4)`, uuid.Must(uuid.NewV7()), ref, effect, at)
	}
	out, _, _ = toolRun(t, env, "reconcile", "open")
	require.Regexp(t, `AJO-ended .* 200.00 .* no exception, but wallet and books differ`, out)
	require.Regexp(t, `AJO-waits .* 0.00 .* the bank has it under way`, out)
	e.Exec(`DELETE FROM reconcile_items WHERE ref LIKE 'AJO-%'`)
	out, _, _ = toolRun(t, env, "audit", "list")
	require.Contains(t, out, "reconcile.dismiss")

	// A payment whose event never came is no reason for an exit code.
	_, err = bank.Pay(context.Background(), fakebank.Payment{AccountRef: "none", Amount: money.Must("1.00")})
	require.Error(t, err)
	_, stderr, code = toolRun(t, env, "reconcile", "--from", "2026-13-01")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `--from must be a time, such as 2026-03-01T09:00:00Z, a day in UTC, or how long ago, such as 2h, not "2026-13-01"`)
	bank.Faults.SetDown(fakebank.DownAnswer)
	_, stderr, code = toolRun(t, env, "reconcile", "--from", "1m")
	require.Equal(t, 1, code)
	require.NotEmpty(t, stderr)
}

func TestRepostCommand(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	e, account, id := c.Env, c.account, c.unposted(c.txn)

	repost := []string{"events", "repost", id.String(), "--reason", "ticket 2", "--yes"}
	c.unconnected(t, repost...)
	out, stderr, code := toolRun(t, c.env, repost...)
	require.Zero(t, code, stderr)
	require.Contains(t, stderr, `NGN 5000.00 (fee 25.00)`)
	require.Contains(t, out, "The payment is posted")
	_, stderr, code = toolRun(t, c.env, repost...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "event is not a processing error")
	require.Equal(t, "4975.00", testenv.Value[money.Amount](e, `SELECT balance FROM ledger_balances WHERE account_id = $1`, account).String())
	out, _, _ = toolRun(t, c.env, "audit", "list")
	require.Contains(t, out, "events.repost")
}

func TestEventRefundCommand(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	e, txn, id := c.Env, c.txn, c.misdirected(c.txn)

	refund := []string{"events", "refund", id.String(), "--reason", "ticket 5", "--yes"}
	c.unconnected(t, refund...)
	_, stderr, code := toolRun(t, c.env, refund[:5]...)
	require.Equal(t, 1, code, "it is asked")
	require.Contains(t, stderr, `Pay NGN 4975.00, which is left of the payment `+txn.ID+` of NGN 5000.00, back to "`+txn.SenderName+`", account 0123456789 at Wema Bank (code "035").`)
	out, stderr, code := toolRun(t, c.env, refund...)
	require.Zero(t, code, stderr)
	ref := testenv.Value[string](e, `SELECT merchant_tx_ref FROM transfers WHERE status = 'pending' AND amount = 4975 AND refund_of IS NOT NULL`)
	require.Contains(t, out, "The payment goes back as the transfer "+ref)
	_, stderr, code = toolRun(t, c.env, refund...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the payment was paid back to its sender, or is on its way")
	out, _, _ = toolRun(t, c.env, "transfers", "show", ref)
	require.Contains(t, out, "suspense")
	out, _, _ = toolRun(t, c.env, "audit", "list")
	require.Contains(t, out, "events.refund")
}

// A record that names the sender's bank, and not its code, is enough, as for refunds of tenants.
func TestEventRefundToABankByItsName(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.misdirected(c.txn)
	bankSettings(c.env, c.bank.URL())
	c.bank.SetTransaction(c.txn.ID, func(t *fakebank.Transaction) { t.SenderBankCode = "" })
	_, stderr, code := toolRun(t, c.env, "events", "refund", id.String(), "--reason", "ticket 5", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, "035", testenv.Value[string](c.Env, `SELECT bank_code FROM transfers WHERE status = 'pending' AND refund_of IS NOT NULL`))
}

// The account that paid is closed: the sender names another one.
func TestEventRefundToAnotherAccount(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.misdirected(c.txn)
	bankSettings(c.env, c.bank.URL())
	refund := []string{"events", "refund", id.String(), "--reason", "ticket 5", "--bank", "058"}
	_, stderr, code := toolRun(t, c.env, refund...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "account")
	refund = append(refund, "--account", "1234567890")
	_, stderr, code = toolRun(t, c.env, refund...)
	require.Equal(t, 1, code, "it is asked")
	require.Contains(t, stderr, `account 1234567890 at the bank with the code "058", in place of account 0123456789 at Wema Bank (code "035").`)
	_, stderr, code = toolRun(t, c.env, append(refund, "--yes")...)
	require.Zero(t, code, stderr)
	require.Equal(t, "058 1234567890 "+c.txn.SenderName, testenv.Value[string](c.Env, `SELECT bank_code || ' ' || account_number || ' ' || refund_name FROM transfers WHERE refund_of IS NOT NULL`))
	require.Equal(t, "1234567890", testenv.Value[string](c.Env, `SELECT detail ->> 'Account' FROM audit_log WHERE action = 'events.refund'`))
}

// Of a list of payouts, one that cannot be adopted holds up none of those behind it.
func TestAdoptCommand(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	bankSettings(c.env, c.bank.URL())
	ours := "AJO" + hex.EncodeToString(c.account[8:]) + "0123456789abcdef"
	for _, ref := range []string{"SOMEBODYS-1", "GIVEN-BACK-1", ours} {
		_, err := c.client.Pay(t.Context(), provider.NewPayout{Ref: ref, Amount: money.Must("5.00"), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores"})
		require.NoError(t, err)
	}
	_, err := c.bank.EndPayout("GIVEN-BACK-1", fakebank.StatusRefund)
	require.NoError(t, err)
	_, stderr, code := toolRun(t, c.env, "transfers", "adopt", "SOMEBODYS-1", "GIVEN-BACK-1", ours, "--reason", "restored", "--yes")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "1 payouts were booked. Not booked:")
	require.Contains(t, stderr, "SOMEBODYS-1: "+transfer.ErrNoAccount.Error())
	require.Contains(t, stderr, "GIVEN-BACK-1: "+transfer.ErrNotPaid.Error())
	require.Equal(t, ours, testenv.Value[string](c.Env, `SELECT merchant_tx_ref FROM transfers`))
}

// A refund by policy is booked as it was made: the fee that the tenant bears comes out of what is
// held of its payment, and out of no other money.
func TestAdoptCommandReservesTheFee(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	bankSettings(c.env, c.bank.URL())
	payment := c.posted(c.txn, ledger.EventConfirm)
	c.Exec(`UPDATE tenants SET payout_fee_by = 'tenant'`)
	require.NoError(t, pg.InTx(t.Context(), c.Pool, func(tx pg.Tx) error {
		return ledger.SetPolicyHold(t.Context(), tx, c.txn.Time, ledger.PolicyHold{
			AccountID: c.account, EntryID: testenv.Value[uuid.UUID](c.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1`, payment),
			Amount: money.Must("4975.00"), Policy: ledger.Policy{Source: ledger.HeldForRefund, Reason: "under"},
		})
	}))
	of := sha256.Sum256([]byte(c.txn.ID))
	key, err := idempotency.NewRequest(testenv.Value[uuid.UUID](c.Env, `SELECT id FROM tenants`), "refund by policy: "+hex.EncodeToString(of[:]), "", "", nil)
	require.NoError(t, err)
	own, _ := key.Name()
	ref := "AJR" + hex.EncodeToString(c.account[8:]) + hex.EncodeToString(of[:4]) + hex.EncodeToString(own[:4])
	_, err = c.client.Pay(t.Context(), provider.NewPayout{Ref: ref, Amount: money.Must("4965.00"), BankCode: "035", AccountNumber: "0123456789", AccountName: "BOLA OJO", SenderName: "Ada Stores"})
	require.NoError(t, err)
	_, stderr, code := toolRun(t, c.env, "transfers", "adopt", ref, "--reason", "restored", "--yes")
	require.Zero(t, code, stderr)
	require.Equal(t, "10.00", testenv.Value[string](c.Env, `SELECT coalesce(reserved_fee, 0)::text FROM transfers WHERE merchant_tx_ref = $1 AND by_policy`, ref))
	require.Zero(t, testenv.Value[int](c.Env, `SELECT count(*) FROM holds WHERE status = 'open'`))
}

func TestReviewSenderCommand(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.posted(c.txn, ledger.EventConfirm)
	sender := []string{"review", "sender", id.String(), "--reason", "ticket 6", "--yes"}
	c.unconnected(t, sender...)
	_, stderr, code := toolRun(t, c.env, sender[:5]...)
	require.Equal(t, 1, code, "it is asked")
	require.Contains(t, stderr, `Keep "`+c.txn.SenderName+`", account 0123456789 at "Wema Bank" (035), as the sender of the payment `+c.txn.ID+` of NGN `)
	require.Contains(t, stderr, `, as the bank's record says: refunds of it go there.`)
	out, stderr, code := toolRun(t, c.env, sender...)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "The sender of the payment is on record.")
	require.Equal(t, "0123456789", testenv.Value[string](c.Env, `SELECT record_account FROM ledger_entries WHERE transaction_group_id = $1`, id))
	_, stderr, code = toolRun(t, c.env, sender...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the payment is not confirmed, or its sender is already on record")
	out, _, _ = toolRun(t, c.env, "audit", "list")
	require.Contains(t, out, "review.sender")
}

func TestRestoreCommand(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	e, account, txn, id := c.Env, c.account, c.txn, c.takenBack(c.txn)

	restore := []string{"review", "restore", id.String(), "--reason", "ticket 3", "--yes"}
	c.unconnected(t, restore...)
	_, stderr, code := toolRun(t, c.env, restore[:5]...)
	require.Equal(t, 1, code, "it is asked")
	require.Contains(t, stderr, "Restore the payment "+txn.ID+" of NGN 4975.00 (5000.00 less the fee of 25.00)")
	require.Contains(t, stderr, "reversed (the bank says failed), and of which the bank's record says success")
	var out string
	out, stderr, code = toolRun(t, c.env, restore...)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "The payment is posted with NGN 4975.00 by event")
	require.Contains(t, out, "The balance of its account is NGN 4975.00.")
	_, stderr, code = toolRun(t, c.env, restore...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "the payment already counts, by another event of the same transaction")
	require.Equal(t, "4975.00", testenv.Value[money.Amount](e, `SELECT balance FROM ledger_balances WHERE account_id = $1`, account).String())
	out, _, _ = toolRun(t, c.env, "audit", "list")
	require.Contains(t, out, "review.restore")
	replacement := testenv.Value[uuid.UUID](e, `SELECT id FROM inbound_events WHERE replaces = $1`, id)
	out, _, _ = toolRun(t, c.env, "events", "show", replacement.String())
	require.Regexp(t, `replaces\s+`+id.String(), out)
	out, _, code = toolRun(t, c.env, "ledger", "verify")
	require.Zero(t, code, out)
}

// A payment that was posted to the wrong account is posted to another one, once its credit is
// reversed.
func TestAssignCommandOfAReversedPayment(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	id := c.takenBack(c.txn)
	right := c.Account(testenv.Value[uuid.UUID](c.Env, `SELECT tenant_id FROM accounts WHERE id = $1`, c.account), "right")
	assign := []string{"events", "assign", id.String(), "--account", right.String(), "--reason", "ticket 3", "--yes"}
	c.unconnected(t, assign...)
	_, stderr, code := toolRun(t, c.env, assign[:7]...)
	require.Equal(t, 1, code, "it is asked")
	require.Contains(t, stderr, `and posted, and reversed since ("the bank says failed"), to account "right"`)
	out, stderr, code := toolRun(t, c.env, assign...)
	require.Zero(t, code, stderr)
	require.Contains(t, out, `The payment is posted to account "right"`)
	_, stderr, code = toolRun(t, c.env, assign...)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "event is not misdirected")
	require.Equal(t, "4975.00", testenv.Value[money.Amount](c.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, right).String())
	out, _, code = toolRun(t, c.env, "ledger", "verify")
	require.Zero(t, code, out)
}

func TestReportKeepsFormulasOut(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, writeReport(&out, reconcile.Report{Exceptions: []reconcile.Exception{{Kind: reconcile.Unreadable, ProviderTxnRef: "=cmd()", Detail: "a\x1bb"}}}))
	require.Contains(t, out.String(), "'=cmd()")
	require.NotContains(t, out.String(), "\x1b")
}

// A wallet that lacks money is not said to agree with the books because no record differs.
func TestReportOfAWalletThatLacksMoney(t *testing.T) {
	t.Parallel()
	less, more := &reconcile.Signed{Amount: money.Must("500.00").Neg()}, &reconcile.Signed{Amount: money.Must("500.00")}
	dismissed := []reconcile.Explanation{{What: "unknown_payout: the bank pays AJO-lost, and no transfer has that reference", Amount: *less}}
	for want, f := range map[string]reconcile.Float{
		"No exceptions, but the wallet has NGN 500.00 less than the books explain.": {Comparable: true, Unexplained: less, Explained: dismissed},
		"No exceptions, but the wallet has NGN 500.00 less than the books explain, as far as it can be compared: payouts were under way.": {
			Why: "payouts were under way", Unexplained: less, UnderWay: more,
		},
		"No new exceptions.":    {Comparable: true, Unexplained: more, Explained: dismissed},
		"Bank and books agree.": {Comparable: true, Unexplained: more},
	} {
		var out bytes.Buffer
		require.NoError(t, printReport(&out, reconcile.Report{Float: f}, false))
		require.Equal(t, want, lastLine(out.String()))
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// A report that has more exceptions than it lists says so in its CSV too.
func TestReportOfManyExceptions(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := reconcile.Report{
		Counts:     map[reconcile.ExceptionKind]int{reconcile.Differs: 3, reconcile.Unposted: 1},
		Exceptions: []reconcile.Exception{{Kind: reconcile.Differs}, {Kind: reconcile.Unposted}},
	}
	require.NoError(t, printReport(&out, r, true))
	lines, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+8+2+1)
	require.Equal(t, []string{"more", "", "differs", "2"}, lines[len(lines)-1][:4])
	require.Contains(t, strings.Join(lines[len(lines)-1], " "), "not listed")
}
