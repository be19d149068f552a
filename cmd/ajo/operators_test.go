package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/customer"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/webhook"
	"ajo/internal/work"
	"ajo/ledger"
)

// deadLetter is a delivery that is out of attempts.
func (o *ops) deadLetter() uuid.UUID {
	o.T.Helper()
	id := uuid.Must(uuid.NewV7())
	o.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, last_error, created_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://shop.example/hook', '{}', 'dead_letter', 6, 'HTTP 500', $4)`, id, o.tenant, o.account, o.Clock.Now())
	for n := range 6 {
		o.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body)
			VALUES ($1, $2, $3, 12, 500, 'HTTP 500', $4)`, id, n+1, o.Clock.Now(), []byte("oh \x1b[31mno\n"+strings.Repeat("x", 100)))
	}
	return id
}

// transfer is a transfer of 1,250.00 in the given state.
func (o *ops) transfer(status string) (ref string, id uuid.UUID) {
	o.T.Helper()
	o.move(o.event(o.account.String()), ledger.Credit, ledger.EventConfirm)
	id, now := uuid.Must(uuid.NewV7()), o.Clock.Now()
	ref = "AJO" + strings.ReplaceAll(id.String(), "-", "")
	var debit []ledger.Posted
	o.tx(func(tx pg.Tx) (err error) {
		debit, err = ledger.PostDebits(o.ctx, tx, now, []ledger.Posting{{AccountID: o.account, Amount: money.Must("1250.00"), TransactionGroupID: id, TransferRef: &ref}})
		return err
	})
	o.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, account_name, attempt_count, submitted_at,
			ask_count, last_error, created_at, updated_at, debit_seq, debits_to)
		VALUES ($1, $2, $3, $4, $5, 1250, '058', '0123456789', 'BOLA ADE', 1, $6, 3, 'ask the bank: timeout', $6, $6, $7, $8)`,
		id, o.tenant, o.account, ref, status, now, debit[0].Seq, debit[0].Debits)
	o.Schedule(work.Settle, id, time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))
	return ref, id
}

func TestRecallCommands(t *testing.T) {
	o := setup(t)
	require.Equal(t, "none\n", o.good("recalls", "list"))
	id := o.confirmed()
	require.Equal(t, "NGN 4975.00 of account \"customer-1\" is held; the bank is asked.\n", o.good("recalls", "open", id.String(), "--yes", "--reason", "a letter"))
	o.lastAudit("recalls.open", "event:"+id.String(), "a letter")
	out := o.good("recalls", "list", "--status", "open")
	for _, want := range []string{
		"EVENT", "OPEN SINCE", "LAST ANSWER", id.String(), "open", "operator", "Test tenant", "customer-1", "4975.00", "the bank may have taken it back, and is being asked",
	} {
		require.Contains(t, out, want)
	}
	_, _, err := o.run("recalls", "open", id.String(), "--yes", "--reason", "again")
	require.EqualError(t, err, "the payment is not in the balance: there is nothing to take back")

	done := decode[payment.Reviewed](o, "recalls", "keep", id.String(), "--yes", "--reason", "the money is there")
	require.Equal(t, []string{"confirmed", "4975.00"}, []string{string(done.Status), done.Balance.String()})
	o.lastAudit("recalls.keep", "event:"+id.String(), "the money is there")
	require.Equal(t, "none\n", o.good("recalls", "list", "--status", "open"))

	o.good("recalls", "open", id.String(), "--yes", "--reason", "another letter")
	done = decode[payment.Reviewed](o, "recalls", "reverse", id.String(), "--yes", "--reason", "the bank took it")
	require.Equal(t, []string{"reversed", "0.00"}, []string{string(done.Status), done.Balance.String()})
	o.lastAudit("recalls.reverse", "event:"+id.String(), "the bank took it")
	for _, name := range []string{"reverse", "keep"} {
		_, _, err = o.run("recalls", name, id.String(), "--yes", "--reason", "again")
		require.EqualError(t, err, "no recall of this payment is open")
	}
	_, _, err = o.run("recalls", "open", id.String(), "--yes", "--reason", "again")
	require.EqualError(t, err, "the payment is not in the balance: there is nothing to take back")
	_, _, err = o.run("recalls", "list", "--status", "x")
	require.EqualError(t, err, "unknown event category or status")
	o.booksAgree()
}

// senderless is what a confirmation says without a bank.
const senderless = ` Its sender is not on record (ask the bank: AJO_PROVIDER_URL is not set): it cannot be refunded before "ajo review sender".`

func TestReviewCommands(t *testing.T) {
	o := setup(t)
	first, second := o.held("the bank's record differs: fee is 10.00, not 25.00"), o.held("no clear answer in time")
	golden(t, `
		EVENT  AGE  TENANT  ACCOUNT  AMOUNT  TRANSACTION  WHY
		<id>  <age>  Test tenant  customer-1  4975.00  API-VACT_TRA-<id>  no clear answer in time
		<id>  <age>  Test tenant  customer-1  4975.00  API-VACT_TRA-<id>  the bank's record differs: fee is 10.00, not 25.00`, o.good("review", "list"))
	top := decode[list[payment.Review]](o, "review", "list", "--limit", "1")
	require.Equal(t, second, top.Items[0].EventID)
	require.Contains(t, o.good("review", "list", "--limit", "1"), "next page: --after "+*top.Pagination.NextCursor)
	require.Equal(t, first, decode[list[payment.Review]](o, "review", "list", "--after", *top.Pagination.NextCursor).Items[0].EventID)

	out, said, err := o.run("review", "confirm", first.String(), "--yes", "--reason", "the bank has corrected its record")
	require.NoError(t, err)
	golden(t, `Confirm the payment of NGN 4975.00 (5000.00 less the fee of 25.00) from "Bola Ade" to account "customer-1" of tenant "Test tenant", `+
		`under review since <time>: the bank's record differs: fee is 10.00, not 25.00. It counts in the balance again, and may be paid out.`, said)
	golden(t, `The payment of NGN 4975.00 is confirmed; the balance of account "customer-1" is NGN 4975.00.`+senderless, out)
	o.lastAudit("review.confirm", "event:"+first.String(), "the bank has corrected its record")

	done := decode[payment.Reviewed](o, "review", "reverse", second.String(), "--yes", "--reason", "the bank knows nothing of it")
	require.Equal(t, []string{"reversed", "4975.00"}, []string{string(done.Status), done.Balance.String()})
	o.lastAudit("review.reverse", "event:"+second.String(), "the bank knows nothing of it")
	for _, c := range []struct{ id, want string }{
		{first.String(), "the payment does not need review"}, {uuid.NewString(), "event not found"}, {"x", `the event must be a UUID, not "x"`},
	} {
		_, _, err = o.run("review", "confirm", c.id, "--yes", "--reason", "again")
		require.EqualError(t, err, c.want)
	}
	require.Equal(t, "none\n", o.good("review", "list"))
	o.booksAgree()
}

func TestReviewCorrectCommand(t *testing.T) {
	o := setup(t)
	id := o.held("the bank's record differs: fee is 10.00, not 25.00")
	for _, args := range [][]string{
		{`required flag(s) "fee" not set`, "--amount", "5000.00"},
		{`required flag(s) "amount" not set`, "--fee", "10.00"},
		{`--amount must be a sum of naira, such as 1250.50, not "x"`, "--amount", "x", "--fee", "1.00"},
		{`--amount must be a sum of naira, such as 1250.50, not "5000.001"`, "--amount", "5000.001", "--fee", "1.00"},
		{`--fee must be a sum of naira, such as 1250.50, not "-1"`, "--amount", "5000.00", "--fee", "-1"},
		{payment.ErrSums.Error(), "--amount", "10.00", "--fee", "10.00"},
	} {
		_, _, err := o.run(append([]string{"review", "correct", id.String(), "--yes", "--reason", "a ticket"}, args[1:]...)...)
		require.EqualError(t, err, args[0])
	}
	_, _, err := o.run("review", "correct", id.String(), "--amount", "5000.00", "--fee", "25.00", "--yes", "--reason", "a ticket")
	require.ErrorIs(t, err, payment.ErrSameSums)
	correct := []string{"review", "correct", id.String(), "--amount", "5000.00", "--fee", "10.00", "--yes", "--reason", "a ticket"}
	out, said, err := o.run(correct...)
	require.NoError(t, err)
	require.Contains(t, said, `Correct the payment of NGN 4975.00 (5000.00 less the fee of 25.00) from "Bola Ade" to account "customer-1" of tenant "Test tenant"`)
	require.Contains(t, said, "It is reversed, and NGN 4990.00 (5000.00 less the fee of 10.00) counts in its place, and may be paid out.")
	golden(t, `The payment is posted with NGN 4990.00 by event <id>, and confirmed; the balance of account "customer-1" is NGN 4990.00.`+senderless, out)
	o.lastAudit("review.correct", "event:"+id.String(), "a ticket")
	_, _, err = o.run(correct...)
	require.EqualError(t, err, "the payment does not need review")
	require.Equal(t, "none\n", o.good("review", "list"))
	o.booksAgree()
}

func TestEventsCommands(t *testing.T) {
	o := setup(t)
	o.Exec(`UPDATE tenants SET webhook_url = 'https://shop.example/hook'`)
	posted, stray := o.event(o.account.String()), o.event("nobody")
	golden(t, `
		EVENT  RECEIVED  STATUS  CATEGORY  AMOUNT  PAID TO  TRANSACTION  ERROR
		<id>  <time>  failed  misdirected  5000.00  nobody  API-VACT_TRA-<id>  no account has this alias
		<id>  <time>  processed  payment  5000.00  <id>  API-VACT_TRA-<id>  -`, o.good("events", "list"))
	found := decode[list[payment.InboundEvent]](o, "events", "list", "--category", "misdirected")
	require.Len(t, found.Items, 1)
	require.Equal(t, stray, found.Items[0].ID)
	require.Equal(t, posted, decode[list[payment.InboundEvent]](o, "events", "list", "--status", "processed").Items[0].ID)
	require.Equal(t, stray, decode[list[payment.InboundEvent]](o, "events", "list", "--transaction", found.Items[0].ProviderTxnRef).Items[0].ID)
	_, _, err := o.run("events", "list", "--category", "lost")
	require.ErrorIs(t, err, payment.ErrFilter)
	o.findsEvents(posted, stray)

	assign := []string{"events", "assign", stray.String(), "--yes", "--reason", "a receipt"}
	for want, args := range map[string][]string{
		"--account is required": {},
		"--account is not an ID: with a reference, name its tenant with --tenant": {"--account", "customer-1"},
		"tenant not found":  {"--account", "customer-1", "--tenant", "nobody@shop.example"},
		"account not found": {"--account", "customer-2", "--tenant", o.tenant.String()},
	} {
		_, _, err = o.run(append(assign, args...)...)
		require.EqualError(t, err, want)
	}
	out, said, err := o.run(append(assign, "--account", "customer-1", "--tenant", o.tenant.String()+"@tenant.example")...)
	require.NoError(t, err)
	golden(t, `Post the payment of NGN 5000.00 (fee 25.00) from "Bola Ade", sent to "nobody" and refused because "no account has this alias", `+
		`to account "customer-1" (dedicated, active, number <number>) of tenant "Test tenant". `+
		`NGN 4975.00 is credited, the tenant is notified, and the bank is asked to confirm it before it can be paid out.`, said)
	golden(t, `The payment is posted to account "customer-1"; the bank is asked to confirm it from <time> on.`, out)
	o.lastAudit("events.assign", "event:"+stray.String(), "a receipt")
	require.Equal(t, int64(1), o.Redis().ZCard(o.ctx, "asynq:{confirm}:scheduled").Val(), "the confirmation is enqueued for its time")
	require.Equal(t, int64(1), o.Redis().LLen(o.ctx, "asynq:{deliver}:pending").Val(), "the delivery is enqueued")
	_, _, err = o.run(append(assign, "--account", o.account.String())...)
	require.ErrorIs(t, err, payment.ErrNotMisdirected)
	o.booksAgree()
}

// findsEvents looks for events by what a payer can say of a payment: the number, the sum and the
// day.
func (o *ops) findsEvents(posted, stray uuid.UUID) {
	o.T.Helper()
	number := testenv.Value[string](o.Env, `SELECT bank_account_number FROM accounts WHERE id = $1`, o.account)
	day := o.Clock.Now().In(clock.Lagos)
	today, before := day.Format(time.DateOnly), day.AddDate(0, 0, -1).Format(time.DateOnly)
	for want, args := range map[string][]string{
		stray.String() + " " + posted.String() + " ": {"--amount", "5000", "--day", today},
		posted.String() + " ":                        {"--number", number},
		"":                                           {"--number", "0000000000"},
		" ":                                          {"--amount", "4975.00"},
		"  ":                                         {"--day", before},
	} {
		got := ""
		for _, e := range decode[list[payment.InboundEvent]](o, append([]string{"events", "list"}, args...)...).Items {
			got += e.ID.String() + " "
		}
		require.Equal(o.T, strings.TrimSpace(want), strings.TrimSpace(got), args)
	}
	for want, args := range map[string][]string{`--amount must be a sum of naira, such as 1250.50, not "5,000"`: {"--amount", "5,000"}, `--day must be a day in Lagos, such as 2026-10-31, not "30-01-2026"`: {"--day", "30-01-2026"}} {
		_, _, err := o.run(append([]string{"events", "list"}, args...)...)
		require.ErrorContains(o.T, err, want)
	}
	shown := o.good("events", "show", stray.String())
	for _, want := range []string{"misdirected", "no account has this alias", "NGN 5000.00", "Bola Ade"} {
		require.Contains(o.T, shown, want)
	}
	require.Equal(o.T, posted, decode[payment.InboundEvent](o, "events", "show", posted.String()).ID)
	require.NotContains(o.T, o.good("events", "show", posted.String()), "archive list")
	o.Exec("ALTER TABLE event_bodies DISABLE TRIGGER USER")
	o.Exec("DELETE FROM event_bodies WHERE event_id = $1", posted)
	require.Contains(o.T, o.good("events", "show", posted.String()), "not here any more (ajo archive list)")
	_, _, err := o.run("events", "show", uuid.NewString())
	require.ErrorIs(o.T, err, payment.ErrEventNotFound)

	out := o.good("accounts", "find", number)
	for _, want := range []string{o.account.String(), "customer-1", "Test tenant", "active", "4975.00"} {
		require.Contains(o.T, out, want)
	}
	_, _, err = o.run("accounts", "find", "0000000000")
	require.EqualError(o.T, err, "account not found")
	require.Contains(o.T, o.good("__complete", "tenant", "show", ""), "@tenant.example\tTest tenant\n")
}

func TestDeliveriesCommands(t *testing.T) {
	o := setup(t)
	id := o.deadLetter()
	golden(t, `
		DELIVERY  CREATED  EVENT  STATUS  ATTEMPTS  NEXT  URL  LAST ERROR
		<id>  <time>  payment.received  dead_letter  6  -  https://shop.example/hook  HTTP 500`, o.good("deliveries", "list", "--status", "dead_letter", "--tenant", o.tenant.String()))
	require.Equal(t, id, decode[list[webhook.Record]](o, "deliveries", "list").Items[0].ID)
	require.Empty(t, decode[list[webhook.Record]](o, "deliveries", "list", "--status", "pending").Items)
	require.Empty(t, decode[list[webhook.Record]](o, "deliveries", "list", "--event", "payment.confirmed").Items)
	shown := o.good("deliveries", "show", id.String())
	golden(t, `
		delivery  <id>
		payment  <id>
		tenant  <id>
		account  <id>
		event  payment.received
		url  https://shop.example/hook
		status  dead_letter
		attempts  6
		last error  HTTP 500
		created  <time>

		ATTEMPT  STARTED  TOOK  STATUS  ERROR  ANSWER
		6  <time>  12ms  500  HTTP 500  oh  [31mno `+strings.Repeat("x", 68)+`…`, strings.Join(strings.Split(shown, "\n")[:13], "\n"))
	require.NotContains(t, shown, "\x1b")
	require.Len(t, decode[deliveryView](o, "deliveries", "show", id.String()).Attempts, 6)
	_, _, err := o.run("deliveries", "show", uuid.NewString())
	require.ErrorIs(t, err, webhook.ErrNotFound)

	out, said, err := o.run("deliveries", "replay", id.String(), "--yes", "--reason", "it is up again")
	require.NoError(t, err)
	golden(t, `Send the event of payment <id> to https://shop.example/hook again: it has failed 6 times, last with "HTTP 500". `+
		`It gets a fresh set of attempts, the first at once.`, said)
	golden(t, `The delivery is pending again.`, out)
	o.lastAudit("deliveries.replay", "delivery:"+id.String(), "it is up again")
	require.Equal(t, int64(1), o.Redis().LLen(o.ctx, "asynq:{deliver}:pending").Val(), "enqueued under an id that no archived task has")
	_, _, err = o.run("deliveries", "replay", id.String(), "--yes", "--reason", "again")
	require.ErrorIs(t, err, webhook.ErrNotDeadLetter)
	_, _, err = o.run("deliveries", "replay", uuid.NewString(), "--yes", "--reason", "again")
	require.ErrorIs(t, err, webhook.ErrNotFound)
}

func TestTransfersCommands(t *testing.T) {
	o := setup(t)
	ref, id := o.transfer("processing")
	golden(t, `
		TRANSFER  AGE  STATUS  AMOUNT  TENANT  ACCOUNT  TO  ATTEMPTS  NEXT  LAST ERROR
		<ref>  <age>  processing  1250.00  Test tenant  customer-1  058/<number>  1  <time>  ask the bank: timeout`, o.good("transfers", "list"))
	require.Equal(t, ref, decode[list[transfer.Record]](o, "transfers", "list", "--status", "processing", "--tenant", o.tenant.String()).Items[0].MerchantTxRef)
	require.Equal(t, "none\n", o.good("transfers", "list", "--status", "failed"))
	_, _, err := o.run("transfers", "list", "--status", "stuck")
	require.ErrorIs(t, err, transfer.ErrStatus)
	golden(t, `
		transfer  <ref>
		status  processing
		amount  NGN 1250.00
		bank's fee  not named by the bank
		vat  not named by the bank
		stamp duty  not named by the bank
		borne by  the platform
		tenant  Test tenant (<id>)
		account  customer-1 (<id>)
		to  058/<number> BOLA ADE
		attempts  1 of at most 5, the last at <time>; asked about it 3 times, not known 0 times
		last error  ask the bank: timeout
		next step  ask the bank by reference: due at <time>
		created  <time>
		updated  <time>

		ENTRY  POSTED  DIRECTION  KIND  AMOUNT  STATUS  REVERSES
		<id>  <time>  debit  -  1250.00  provisional  -`, o.good("transfers", "show", ref))
	require.Equal(t, "debit", string(decode[transfer.Detail](o, "transfers", "show", ref).Entries[0].Direction))
	_, _, err = o.run("transfers", "show", "AJO")
	require.ErrorIs(t, err, transfer.ErrNotFound)

	out, said, err := o.run("transfers", "poll", ref, "--yes", "--reason", "the bank is up again")
	require.NoError(t, err)
	golden(t, `Make the next step of transfer <ref> due now: NGN 1250.00 from account "customer-1" of tenant "Test tenant" to 058/<number> BOLA ADE, `+
		`processing, 1 attempts. The step: ask the bank by reference: due at <time>.`, said)
	golden(t, `The transfer is processing; its next step: ask the bank by reference: due.`, out)
	o.lastAudit("transfers.poll", "transfer:"+ref, "the bank is up again")
	require.Equal(t, int64(1), o.Redis().LLen(o.ctx, "asynq:{settle}:pending").Val())
	o.move(id, ledger.Debit, ledger.EventReverse)
	o.Exec(`UPDATE transfers SET status = 'failed', attempt_count = 0`)
	o.Exec(`DELETE FROM work WHERE id = $1`, id)
	_, _, err = o.run("transfers", "poll", ref, "--yes", "--reason", "again")
	require.ErrorIs(t, err, transfer.ErrOver)
	require.Contains(t, o.good("transfers", "show", ref), "none: it has ended")
	o.booksAgree()
}

func TestEndingATransferByHand(t *testing.T) {
	o := setup(t)
	waiting, id := o.transfer("pending")
	o.Exec(`UPDATE transfers SET attempt_count = 0, submitted_at = NULL WHERE id = $1`, id)
	out, said, err := o.run("transfers", "cancel", waiting, "--yes", "--reason", "the tenant withdraws it")
	require.NoError(t, err)
	golden(t, `Cancel transfer <ref>: NGN 1250.00 from account "customer-1" of tenant "Test tenant" to 058/<number>, pending, 0 attempts. `+
		`Its money is returned to the balance, and it is never sent to the bank.`, said)
	golden(t, `The transfer is failed; the balance of account "customer-1" is NGN 4975.00. What the bank said of it: it was not asked.`, out)
	o.lastAudit("transfers.cancel", "transfer:"+waiting, "the tenant withdraws it")
	_, _, err = o.run("transfers", "cancel", waiting, "--yes", "--reason", "again")
	require.ErrorIs(t, err, transfer.ErrOver)

	ref, id := o.transfer("processing")
	resolve := []string{"transfers", "resolve", ref, "--yes", "--reason", "the bank's letter"}
	for _, c := range []struct {
		args []string
		want error
	}{
		{nil, errPaidOrNot},
		{[]string{"--paid", "--not-paid"}, errPaidOrNot},
		{[]string{"--not-paid", "--amount", "1.00"}, transfer.ErrPaidSum},
		{[]string{"--paid", "--amount", "0.00"}, transfer.ErrPaidSum},
	} {
		_, _, err = o.run(append(resolve, c.args...)...)
		require.ErrorIs(t, err, c.want, c.args)
	}
	_, _, err = o.run(append(resolve, "--paid", "--amount", "1e3")...)
	require.EqualError(t, err, `--amount must be a sum of naira, such as 1250.50, not "1e3"`)
	_, _, err = o.run("transfers", "resolve", ref, "--paid", "--yes")
	require.ErrorIs(t, err, audit.ErrReason)
	o.Exec(`UPDATE transfers SET difference = 'the bank says success of 1000.00, the books processing of 1250.00', differs_since = $2 WHERE id = $1`, id, o.Clock.Now())
	require.Contains(t, o.good("transfers", "list", "--differing"), ref)
	require.Contains(t, o.good("transfers", "show", ref), "the bank says success of 1000.00, the books processing of 1250.00, since")
	out, said, err = o.run(append(resolve, "--paid", "--amount", "1000.00")...)
	require.NoError(t, err)
	golden(t, `Book transfer <ref> as paid with NGN 1000.00: NGN 1250.00 from account "customer-1" of tenant "Test tenant" to 058/<number>, processing, 1 attempts. `+
		`The bank says success of 1000.00, the books processing of 1250.00.`, said)
	golden(t, `The transfer is success; the balance of account "customer-1" is NGN 8950.00. What the bank said of it: it was not asked.`, out)
	o.lastAudit("transfers.resolve", "transfer:"+ref, "the bank's letter")
	require.Equal(t, "none\n", o.good("transfers", "list", "--differing"))
	require.Contains(t, o.good("transfers", "show", ref), "NGN 1000.00")
	require.Contains(t, o.good("transfers", "list"), "1000.00 of 1250.00")
	_, said, err = o.run(append(resolve, "--not-paid")...)
	require.NoError(t, err)
	require.Contains(t, said, "as not paid: NGN 1000.00 of 1250.00 from account", "what comes back is what left")
	require.Contains(t, o.good("transfers", "show", ref), "the bank did not pay the transfer")
	_, said, err = o.run("transfers", "resolve", ref, "--paid", "--reason", "the bank's letter")
	require.ErrorIs(t, err, errUnasked)
	require.Contains(t, said, "as paid: NGN 1250.00 from account", "it would be debited whole")
	o.booksAgree()

	// The bank is asked about it again by the roles' own schedule.
	later, _ := o.transfer("processing")
	o.env["AJO_SETTLE_RECHECKS"] = "7h"
	o.good("transfers", "resolve", later, "--paid", "--yes", "--reason", "the bank's letter")
	d := decode[transfer.Detail](o, "transfers", "show", later)
	require.WithinDuration(t, d.UpdatedAt.Add(7*time.Hour), *d.NextAttemptAt, 0)
	o.env["AJO_SETTLE_RECHECKS"] = "soon"
	_, _, err = o.run("transfers", "show", later)
	require.ErrorContains(t, err, "AJO_SETTLE_RECHECKS is not a valid")
}

func TestTenantCommands(t *testing.T) {
	o := setup(t)
	email := o.tenant.String() + "@tenant.example"
	golden(t, `
		TENANT  CREATED  NAME  EMAIL  STATUS  KYC  OPERATOR
		<id>  <time>  Test tenant  <id>@tenant.example  active  unverified  no`, o.good("tenant", "list"))
	require.Empty(t, decode[list[tenant.Record]](o, "tenant", "list", "--status", "suspended").Items)

	out, said, err := o.run("tenant", "suspend", email, "--yes", "--reason", "fraud")
	require.NoError(t, err)
	golden(t, `Suspend tenant "Test tenant" (<id>@tenant.example, active): its API key is refused from the next request on, and its sessions end. `+
		`Payments to its accounts are still posted and delivered. Settlements that are at the bank are completed; the others stay pending until it is active again, but those that await approval fail 24 hours after they were accepted.`, said)
	golden(t, `Tenant "Test tenant" (<id>@tenant.example) is suspended.`, out)
	o.lastAudit("tenant.suspend", "tenant:"+o.tenant.String(), "fraud")
	out, said, err = o.run("tenant", "suspend", email, "--reason", "fraud")
	require.NoError(t, err, "nothing is to be asked")
	require.Empty(t, said)
	golden(t, `Tenant "Test tenant" (<id>@tenant.example) is already suspended; nothing was changed.`, out)
	again := decode[changed](o, "tenant", "suspend", email, "--yes", "--reason", "fraud")
	require.False(t, again.Changed)
	require.Equal(t, tenant.Suspended, again.Tenant.Status)
	require.True(t, decode[changed](o, "tenant", "activate", o.tenant.String(), "--yes", "--reason", "cleared").Changed)
	o.lastAudit("tenant.activate", "tenant:"+o.tenant.String(), "cleared")

	require.True(t, decode[changed](o, "tenant", "operator", email, "--yes", "--reason", "the KYC desk").Tenant.Operator)
	golden(t, `Tenant "Test tenant" (<id>@tenant.example) is already an operator; nothing was changed.`, o.good("tenant", "operator", email, "--yes", "--reason", "x"))
	require.False(t, decode[changed](o, "tenant", "operator", email, "--off", "--yes", "--reason", "left the desk").Tenant.Operator)

	out, said, err = o.run("tenant", "payout-fee", email, "--by", "tenant", "--yes", "--reason", "the contract")
	require.NoError(t, err)
	golden(t, `Charge tenant "Test tenant" (<id>@tenant.example, active) what the bank charges for each payout that is accepted from now on.`, said)
	golden(t, `Tenant "Test tenant" (<id>@tenant.example) is charged what the bank takes for its payouts.`, out)
	o.lastAudit("tenant.payout-fee", "tenant:"+o.tenant.String(), "the contract")
	golden(t, `Tenant "Test tenant" (<id>@tenant.example) is already charged what the bank takes for its payouts; nothing was changed.`, o.good("tenant", "payout-fee", email, "--by", "tenant", "--yes", "--reason", "x"))
	require.Contains(t, o.good("tenant", "show", email), "tenant")
	require.Equal(t, tenant.PlatformBears, decode[changed](o, "tenant", "payout-fee", email, "--by", "platform", "--yes", "--reason", "it ended").Tenant.PayoutFeeBy)
	_, _, err = o.run("tenant", "payout-fee", email, "--by", "nobody", "--yes", "--reason", "x")
	require.ErrorIs(t, err, errBearer)
	require.Len(t, o.audited(), 6)
	_, _, err = o.run("tenant", "show", "nobody@shop.example")
	require.ErrorIs(t, err, tenant.ErrNotFound)
}

func TestCustomersCommands(t *testing.T) {
	o := setup(t)
	id := o.customerIn("pending_review")
	golden(t, `
		CUSTOMER  AGE  TENANT  REFERENCE  NAME  NIN  SAME NIN
		<id>  2h0m  Test tenant  <id>  Ada Obi  …6789  0`, o.good("customers", "review"))
	require.Contains(t, o.good("customers", "show", id), "pending_review, tier 1")
	out, said, err := o.run("customers", "approve", id, "--yes", "--reason", "papers seen")
	require.NoError(t, err)
	golden(t, `Approve the KYC of customer "Ada Obi" (<id>) of tenant "Test tenant", KYC pending_review, tier 1, active, NIN …6789: it moves to tier 2.`, said)
	golden(t, `Customer "Ada Obi": KYC approved, tier 2, active.`, out)
	o.lastAudit("customers.approve", "customer:"+id, "papers seen")
	require.Equal(t, "none\n", o.good("customers", "review"))
	golden(t, `Customer "Ada Obi": KYC approved, tier 3, active.`, o.good("customers", "tier", id, "3", "--yes", "--reason", "passport"))
	o.lastAudit("customers.tier", "customer:"+id, "passport")
	golden(t, `Customer "Ada Obi": KYC approved, tier 3, suspended.`, o.good("customers", "suspend", id, "--yes", "--reason", "fraud"))
	golden(t, `The customer already has this status or tier; nothing was changed.`, o.good("customers", "suspend", id, "--yes", "--reason", "fraud"))
	golden(t, `Customer "Ada Obi": KYC approved, tier 3, active.`, o.good("customers", "activate", id, "--yes", "--reason", "cleared"))
	golden(t, `Customer "Ada Obi": KYC none, tier 1, active.`, o.good("customers", "tier", id, "1", "--yes", "--reason", "forged papers"))
	_, _, err = o.run("customers", "reject", id, "--yes", "--reason", "x")
	require.ErrorIs(t, err, customer.ErrNotPending)
	_, _, err = o.run("customers", "tier", id, "three", "--yes", "--reason", "x")
	require.ErrorIs(t, err, customer.ErrTierRange)
	rejected := o.customerIn("pending_review")
	golden(t, `Customer "Ada Obi": KYC rejected, tier 1, active.`, o.good("customers", "reject", rejected, "--yes", "--reason", "not the holder"))
}

// Whoever has studied a NIN does not decide about another one of the same last digits, which was
// submitted since.
func TestKYCIsDecidedAsItWasLookedAt(t *testing.T) {
	o := setup(t)
	id := o.customerIn("pending_review")
	seen := decode[customer.Record](o, "customers", "show", id).UpdatedAt.Format(time.RFC3339Nano)
	o.Exec(`UPDATE customers SET updated_at = updated_at + interval '1 minute' WHERE id = $1`, id)
	for _, name := range []string{"approve", "reject"} {
		_, said, err := o.run("customers", name, id, "--as-of", seen, "--yes", "--reason", "papers seen")
		require.EqualError(t, err, "the customer has changed since it was shown: look at it again")
		require.Empty(t, said, "nothing is asked")
		_, _, err = o.run("customers", name, id, "--as-of", "today", "--yes", "--reason", "papers seen")
		require.EqualError(t, err, `--as-of must be a time, such as 2026-12-01T09:00:00.123456Z, not "today"`)
	}
	seen = decode[customer.Record](o, "customers", "show", id).UpdatedAt.Format(time.RFC3339Nano)
	golden(t, `Customer "Ada Obi": KYC approved, tier 2, active.`, o.good("customers", "approve", id, "--as-of", seen, "--yes", "--reason", "papers seen"))
}

func TestEndSessionsCommand(t *testing.T) {
	o := setup(t)
	for i := range 2 {
		o.Exec(`INSERT INTO sessions (token_hash, id, tenant_id, member_id, created_at, expires_at) VALUES (sha256($1), gen_random_uuid(), $2, $2, now(), now() + interval '1 day')`, []byte{byte(i)}, o.tenant)
	}
	out, said, err := o.run("tenant", "end-sessions", o.tenant.String(), "--yes", "--reason", "a laptop was stolen")
	require.NoError(t, err)
	golden(t, `End all sessions of tenant "Test tenant" (<id>@tenant.example, active). It must log in again; its API key keeps working.`, said)
	golden(t, `2 sessions of tenant "Test tenant" (<id>@tenant.example) have ended.`, out)
	o.lastAudit("tenant.end-sessions", "tenant:"+o.tenant.String(), "a laptop was stolen")
	require.Zero(t, decode[sessionsEnded](o, "tenant", "end-sessions", o.tenant.String(), "--yes", "--reason", "again").Sessions)

	const email = "dev@tenant.example"
	o.Exec(`INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at) VALUES (gen_random_uuid(), $1, $2, 'Chidi Eze', 'developer', 'x', now(), now())`, o.tenant, email)
	for i, member := range []string{"m.role = 'owner'", "m.role = 'developer'"} {
		o.Exec(`INSERT INTO sessions (token_hash, id, tenant_id, member_id, created_at, expires_at)
			SELECT sha256($1), gen_random_uuid(), m.tenant_id, m.id, now(), now() + interval '1 day' FROM members m WHERE m.tenant_id = $2 AND `+member, []byte{byte(7 + i)}, o.tenant)
	}
	out, said, err = o.run("tenant", "end-sessions", o.tenant.String(), "--member", email, "--yes", "--reason", "a laptop was stolen")
	require.NoError(t, err)
	golden(t, `End all sessions of dev@tenant.example, a member of tenant "Test tenant" (<id>@tenant.example, active). The member must log in again.`, said)
	golden(t, `1 sessions of dev@tenant.example of tenant "Test tenant" (<id>@tenant.example) have ended.`, out)
	require.Equal(t, 1, testenv.Value[int](o.Env, `SELECT count(*) FROM sessions WHERE ended_at IS NULL`), "the owner's goes on")
	_, _, err = o.run("tenant", "end-sessions", o.tenant.String(), "--member", "x@tenant.example", "--yes", "--reason", "x")
	require.ErrorIs(t, err, tenant.ErrMemberNotFound)
}

func TestTenantMembersCommand(t *testing.T) {
	o := setup(t)
	o.Exec(`INSERT INTO members (id, tenant_id, email, name, role, invite_hash, invite_expires_at, invited_at)
		VALUES ('ffffffff-0000-7000-8000-000000000001', $1, 'dev@shop.example', '', 'developer', sha256('x'), now() + interval '1 day', now())`, o.tenant)
	golden(t, `
		MEMBER  EMAIL  NAME  ROLE  STATUS  TOTP  INVITED  EXPIRES  JOINED  REMOVED
		<id>  dev@shop.example  -  developer  invited  no  <time>  <time>  -  -
		<id>  <id>@tenant.example  Test tenant  owner  active  no  <time>  -  <time>  -`, o.good("tenant", "members", o.tenant.String()))
	_, _, err := o.run("tenant", "members", "nobody@shop.example")
	require.ErrorIs(t, err, tenant.ErrNotFound)
}

func TestResetTOTPCommand(t *testing.T) {
	o := setup(t)
	email := o.tenant.String() + "@tenant.example"
	reset := []string{"tenant", "reset-totp", o.tenant.String(), email, "--yes", "--reason", "phone lost"}
	_, _, err := o.run(reset...)
	require.ErrorIs(t, err, tenant.ErrTOTPOff)
	o.Exec(`UPDATE members SET totp_secret = 'x', totp_confirmed_at = now(), totp_last_step = 1 WHERE tenant_id = $1`, o.tenant)
	o.env["AJO_MAIL_DIR"] = t.TempDir()
	out, said, err := o.run(reset...)
	require.NoError(t, err)
	mails, err := filepath.Glob(filepath.Join(o.env["AJO_MAIL_DIR"], "*.eml"))
	require.NoError(t, err)
	require.Len(t, mails, 1, "the command waits until the member is told")
	golden(t, `Turn two-factor authentication of <id>@tenant.example, a member of tenant "Test tenant" (<id>@tenant.example, active), off, and end the member's sessions.`, said)
	golden(t, `Member <id>@tenant.example of tenant "Test tenant" (<id>@tenant.example) logs in with the password alone.`, out)
	o.lastAudit("tenant.reset-totp", "member:"+o.tenant.String(), "phone lost")
	_, _, err = o.run("tenant", "reset-totp", o.tenant.String(), "x@tenant.example", "--yes", "--reason", "x")
	require.ErrorIs(t, err, tenant.ErrMemberNotFound)
}

func TestTenantKeysCommands(t *testing.T) {
	o := setup(t)
	key := o.apiKey()
	golden(t, `
		KEY  NAME  SUFFIX  STATUS  MAIN  SCOPES  NETWORKS  CREATED  EXPIRES  LAST USED  FROM
		<id>  Reader  …4fQ7  active  no  accounts:read  192.0.2.0/24  <time>  -  -  -`, o.good("tenant", "keys", o.tenant.String()))
	out, said, err := o.run("tenant", "revoke-key", o.tenant.String(), key.String(), "--yes", "--reason", "it was published")
	require.NoError(t, err)
	golden(t, `Revoke the API key "Reader" (…4fQ7) of tenant "Test tenant" (<id>@tenant.example, active): it is refused from the next request on.`, said)
	golden(t, `API key "Reader" (…4fQ7) of tenant "Test tenant" (<id>@tenant.example) is revoked.`, out)
	o.lastAudit("tenant.revoke-key", "key:"+key.String(), "it was published")
	require.Equal(t, tenant.KeyRevoked, decode[keyRevoked](o, "tenant", "revoke-key", o.tenant.String(), key.String(), "--yes", "--reason", "again").Key.Status)
	require.Len(t, o.audited(), 1, "it was so already")
	for _, unknown := range []string{"x", uuid.NewString()} {
		_, _, err = o.run("tenant", "revoke-key", o.tenant.String(), unknown, "--yes", "--reason", "x")
		require.ErrorIs(t, err, tenant.ErrKeyNotFound)
	}
}

func TestRotateSecretCommand(t *testing.T) {
	o := setup(t)
	rotate := []string{"tenant", "rotate-secret", o.tenant.String(), "--yes", "--reason", "it leaked"}
	out, said, err := o.run(rotate...)
	require.NoError(t, err)
	golden(t, `Give tenant "Test tenant" (<id>@tenant.example, active) a new webhook signing secret. It has none yet; its deliveries are signed from now on.`, said)
	golden(t, `Tenant "Test tenant" (<id>@tenant.example) has its first signing secret. The tenant reads it with POST /auth/webhook-secret.`, out)
	got := decode[rotated](o, rotate...)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), *got.PreviousUntil, time.Minute)
	_, said, err = o.run(rotate...)
	require.NoError(t, err)
	require.Regexp(t, `the one before that, which was to sign until [0-9T:-]+\.[0-9]+Z, stops now`, said)
	o.lastAudit("tenant.rotate-secret", "tenant:"+o.tenant.String(), "it leaked")
	require.Len(t, o.audited(), 3)
	shown := o.good("tenant", "show", o.tenant.String())
	golden(t, `
		tenant  <id>
		name  Test tenant
		email  <id>@tenant.example
		status  active
		operator  no
		payout fee borne by  platform
		price of a payment  none
		price of a payout  none
		business kyc  unverified
		webhook secret  yes
		previous secret until  <time>
		created  <time>
		updated  <time>`, shown)
}

func TestLoginLinkCommand(t *testing.T) {
	o := setup(t)
	email := o.tenant.String() + "@tenant.example"
	out, said, err := o.run("tenant", "login-link", email, "--reason", "password lost")
	require.NoError(t, err)
	golden(t, `Opens the dashboard of tenant "Test tenant" (<id>@tenant.example) once, until <time>:`, said)
	require.Regexp(t, `^http://127\.0\.0\.1:8080/dashboard/#link=[A-Za-z0-9_-]{43}\n$`, out)
	o.lastAudit("tenant.login-link", "tenant:"+o.tenant.String(), "password lost")

	tenants := tenant.New(tenant.Options{Pool: o.Pool, Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = tenants.Close(o.ctx) })
	_, token, _ := strings.Cut(strings.TrimSpace(out), "#link=")
	s, err := tenants.LoginByLink(o.ctx, secret.Redact(token), netip.Addr{})
	require.NoError(t, err)
	require.Equal(t, o.tenant, s.TenantID)

	o.env["AJO_HTTP_ADDR"] = "127.0.0.1:9999"
	require.Contains(t, o.good("tenant", "login-link", email, "--reason", "x"), "http://127.0.0.1:9999/dashboard/#link=")
	l := decode[link](o, "tenant", "login-link", email, "--reason", "x", "--url", "https://pay.example/")
	require.Equal(t, o.tenant, l.TenantID)
	require.Contains(t, l.URL, "https://pay.example/dashboard/#link=")
	require.WithinDuration(t, time.Now().Add(10*time.Minute), l.Expires, time.Minute)

	for want, args := range map[string][]string{
		"--reason: a reason is required": {email},
		"tenant not found":               {"nobody@tenant.example", "--reason", "x"},
		`--url must be an http or https URL, such as https://pay.example, not "pay.example"`: {email, "--reason", "x", "--url", "pay.example"},
	} {
		_, _, err := o.run(append([]string{"tenant", "login-link"}, args...)...)
		require.ErrorContains(t, err, want)
	}
	require.Len(t, o.audited(), 4, "three links, and the session of one")
}

func TestLedgerVerifyCommand(t *testing.T) {
	o := setup(t)
	o.event(o.account.String())
	o.transfer("processing")
	require.Regexp(t, `^The books agree\.\nRead all 3 entries of 1 accounts in \S+\.\n$`, o.good("ledger", "verify"))
	require.Regexp(t, `^The books agree\.\nRead 3 entries of 1 accounts in \S+, from the checkpoints of \S+ on; 3 entries are below these\.\n$`,
		o.good("ledger", "verify"))
	got := decode[verified](o, "ledger", "verify")
	require.NotNil(t, got.Since)
	got.Since, got.TookMS = nil, 0
	require.Equal(t, verified{OK: true, Accounts: 1, Entries: 3, Below: 3, Findings: []ledger.Finding{}}, got)
	require.True(t, decode[verified](o, "ledger", "verify", "--full").All)
	o.Exec(`UPDATE ledger_balances SET total_credits = total_credits + 1`)
	out, _, err := o.run("ledger", "verify", "--timeout", "5m")
	require.Equal(t, exitCode(1), err)
	golden(t, `
		CHECK THAT FAILED  WHERE  FOUND
		totals equal the entries  <id>  stored 9951.00/1250.00/8701.00/4975.00/3, entries say 9950.00/1250.00/8700.00/4975.00/3 (credits/debits/balance/provisional/seq)
		the book sums to zero  book  it sums to 1.00`, out)
	out, _, err = o.run("ledger", "verify", "--json")
	require.Equal(t, exitCode(1), err)
	var v verified
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.False(t, v.OK)
	require.Len(t, v.Findings, 2)
	_, _, err = o.run("ledger", "verify", "--timeout", "0s")
	require.EqualError(t, err, "--timeout must be above zero")
}

func TestTrialBalanceAndStatementCommands(t *testing.T) {
	o := setup(t)
	o.event(o.account.String())
	o.event("nobody")
	day := o.Clock.Now().In(clock.Lagos).Format(time.DateOnly)
	b := decode[ledger.TrialBalance](o, "ledger", "trial-balance", "--at", day)
	var is []string
	for _, l := range b.Accounts {
		is = append(is, fmt.Sprint(l.Account, " ", l.Debit, " ", l.Credit))
	}
	require.Equal(t, []string{
		"provider_float 9950.00 0.00", "tenants 0.00 4975.00", "bank_fees 0.00 0.00", "taxes 0.00 0.00", "platform_revenue 0.00 0.00", "suspense 0.00 4975.00",
	}, is)
	require.Equal(t, "0.00", b.Total.String())
	require.Regexp(t, `(?m)^suspense +0\.00 +4,975\.00$`, o.good("ledger", "trial-balance", "--at", day))
	require.Regexp(t, `(?m)^total +9,950\.00 +9,950\.00$`, o.good("ledger", "trial-balance", "--at", day))
	require.Less(t, decode[ledger.TrialBalance](o, "ledger", "trial-balance", "--at", "2999-12-31").Day, "2999", "nobody knows that day's end")
	require.Regexp(t, `^So far on \d{4}-\d\d-\d\d \(Lagos\), in naira:\n`, o.good("ledger", "trial-balance"), "nor that of this one")
	require.Regexp(t, `^At the end of 2020-01-01 \(Lagos\), in naira:\n`, o.good("ledger", "trial-balance", "--at", "2020-01-01"))

	lines := decode[list[ledger.SystemLine]](o, "ledger", "statement", "suspense", "--from", day, "--to", day).Items
	require.Len(t, lines, 1)
	require.Equal(t, []any{ledger.Credit, "4975.00", ledger.KindSuspense, "provider_float"}, []any{lines[0].Direction, lines[0].Amount.String(), lines[0].Kind, lines[0].Other})
	require.Regexp(t, `credit +4,975\.00 +confirmed +suspense +provider_float`, o.good("ledger", "statement", "suspense"))
	require.Equal(t, "none\n", o.good("ledger", "statement", "bank_fees"))
	for want, args := range map[string][]string{
		"unknown system account": {"statement", "customer"},
		`--from must be a day in Lagos, such as 2026-10-31, not "yesterday"`: {"statement", "suspense", "--from", "yesterday"},
		`--to must be a day in Lagos, such as 2026-10-31, not "2026-13-01"`:  {"statement", "suspense", "--to", "2026-13-01"},
		`--at must be a day in Lagos, such as 2026-10-31, not "now"`:         {"trial-balance", "--at", "now"},
	} {
		_, _, err := o.run(append([]string{"ledger"}, args...)...)
		require.EqualError(t, err, want)
	}
	o.Exec(`UPDATE ledger_balances SET total_credits = total_credits + 1 WHERE account_id = $1`, o.account)
	_, _, err := o.run("ledger", "trial-balance", "--at", day)
	require.Equal(t, exitCode(1), err)
}

// Its queries may take longer than those of the service: a limit of its own, and only for them.
func TestLedgerVerifyHasItsOwnTimeout(t *testing.T) {
	o := setup(t)
	o.event(o.account.String())
	o.Exec(`ALTER TABLE ledger_balances RENAME TO slow_balances`)
	o.Exec(`CREATE VIEW ledger_balances AS SELECT b.* FROM slow_balances b, (SELECT pg_sleep(2.5)) s`)
	_, _, err := o.run("ledger", "verify", "--timeout", "300ms")
	require.Equal(t, "57014", pg.Code(err), "%v", err)
	o.env["AJO_DATABASE_URL"] = strings.Replace(o.env["AJO_DATABASE_URL"], "statement_timeout=60000", "statement_timeout=2000", 1)
	require.Regexp(t, `[?&]statement_timeout=2000(&|$)`, o.env["AJO_DATABASE_URL"], "else nothing is tested")
	require.Contains(t, o.good("ledger", "verify"), "The books agree.\n")
}

func TestAuditCommand(t *testing.T) {
	o := setup(t)
	for i := range 3 {
		o.tx(func(tx pg.Tx) error {
			by := audit.By{Actor: "cli:ada", Reason: fmt.Sprintf("reason %d", i)}
			return audit.Write(o.ctx, tx, o.Clock.Now(), by.Entry("tenant.suspend", fmt.Sprintf("tenant:%d", i), struct{ Name string }{"Shop"}))
		})
	}
	golden(t, `
		AT  ACTOR  ACTION  TARGET  REASON  DETAIL
		<time>  cli:ada  tenant.suspend  tenant:2  reason 2  {"Name": "Shop"}
		<time>  cli:ada  tenant.suspend  tenant:1  reason 1  {"Name": "Shop"}`, strings.Join(strings.Split(o.good("audit", "list", "--limit", "2"), "\n")[:3], "\n"))
	found := decode[list[audit.Record]](o, "audit", "list", "--target", "tenant:1", "--action", "tenant.suspend")
	require.Len(t, found.Items, 1)
	require.JSONEq(t, `{"Name":"Shop"}`, string(found.Items[0].Detail))
	require.Empty(t, decode[list[audit.Record]](o, "audit", "list", "--action", "events.assign").Items)
	require.Equal(t, 3, testenv.Value[int](o.Env, `SELECT count(*) FROM audit_log`))
}

// The bank names the fee of a payout to a person alone, who books it.
func TestChargesCommand(t *testing.T) {
	o := setup(t)
	ref, _ := o.transfer("processing")
	book := []string{"transfers", "charges", ref, "--yes", "--reason", "the bank's letter"}
	_, _, err := o.run(append(book, "--fee", "20.00")...)
	require.ErrorIs(t, err, transfer.ErrNoCharges)
	o.good("transfers", "resolve", ref, "--paid", "--yes", "--reason", "the bank's letter")
	_, _, err = o.run(book...)
	require.ErrorContains(t, err, "fee")
	_, _, err = o.run(append(book, "--fee", "1e3")...)
	require.EqualError(t, err, `--fee must be a sum of naira, such as 1250.50, not "1e3"`)
	out, said, err := o.run(append(book, "--fee", "20.00", "--vat", "1.50", "--stamp-duty", "0.00")...)
	require.NoError(t, err)
	golden(t, `Book what the bank took for transfer <ref>, NGN 1250.00, success, of account "customer-1" of tenant "Test tenant": fee NGN 20.00, VAT NGN 1.50, stamp duty NGN 0.00.`, said)
	golden(t, `The charges of transfer <ref> are booked.`, out)
	o.lastAudit("transfers.charges", "transfer:"+ref, "the bank's letter")
	shown := o.good("transfers", "show", ref)
	for _, want := range []string{"bank's fee             NGN 20.00", "vat                    NGN 1.50", "stamp duty             NGN 0.00"} {
		require.Contains(t, strings.Join(strings.Fields(shown), " "), strings.Join(strings.Fields(want), " "))
	}
	require.Contains(t, o.good("ledger", "trial-balance"), "20.00")
	o.booksAgree()
}
