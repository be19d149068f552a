package e2e

import (
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/freeze"
	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// Books that somebody has changed by hand, and an account from which money has gone that was never
// there.
func TestAlertsOfBooks(t *testing.T) {
	a := newAlarm(t)
	s := newSettlerIn(a.world)
	roles := map[string]string{"api": a.watched(func() { a.startAPI() })}
	shop, poor := s.fund("shop", money.Must("1000.00")), s.Account(s.tenant, "poor")
	lost := s.credit(poor, money.Must("50.00"))
	a.settings["AJO_SETTLE_PROVISIONAL"] = "true"
	pays := a.startWorker("settle")
	ok, err := s.order(&payout{account: "poor", accountNumber: "0123456789", amount: money.Must("40.00")})
	require.NoError(t, err)
	require.True(t, ok)
	a.eventually("the payout", func() bool { return a.count(`SELECT count(*) FROM transfers WHERE status = 'success'`) == 1 })
	pays.Kill()
	s.move(lost, ledger.EventReverse) // the bank knows nothing of the payment
	a.Exec(`UPDATE ledger_balances SET provisional_credits = total_credits + 1 WHERE account_id = $1`, shop)
	worker := a.fresh(roles, "expire")
	a.look(roles)
	a.must("AjoInvariantViolated", "AjoNegativeBalance")
	a.mustNot("AjoInvariantsNotChecked", "AjoDown")

	a.says(worker, "AjoInvariantViolated", "alert=invariant")
	require.Contains(t, a.followTo(1, "AjoInvariantViolated", "ajo ledger verify"), shop.String())
	a.follow("AjoInvariantViolated", "ajo freeze payouts")
	require.Equal(t, 1, a.count(`SELECT count(*) FROM freezes WHERE scope = 'payouts' AND lifted_at IS NULL AND until IS NULL`))
	found := cells(a.follow("AjoNegativeBalance", "SELECT"))
	require.Equal(t, [][]string{{poor.String(), "poor", s.tenant.String(), "-40.00"}}, found)
	a.follow("AjoNegativeBalance", "ajo tenant show", "<tenant id>", found[0][2])

	a.Exec(`UPDATE ledger_balances SET provisional_credits = 0 WHERE account_id = $1`, shop)
	s.deposit(poor, money.Must("40.00"))
	a.follow("AjoInvariantViolated", "ajo ledger verify")
	a.fresh(roles, "expire")
	a.quiet(roles, "AjoInvariantViolated", "AjoNegativeBalance")
}

// deposit puts confirmed money into an account that is there.
func (s *settler) deposit(account uuid.UUID, amount money.Amount) {
	s.t.Helper()
	s.move(s.credit(account, amount), ledger.EventConfirm)
}

// A payout whose outcome the bank does not tell, and one that waits for money that the bank does
// not confirm.
func TestAlertsOfTransfers(t *testing.T) {
	a := newAlarm(t)
	s := newSettlerIn(a.world)
	a.settings["AJO_SETTLE_DELAYS"] = "1s,1h"
	roles := map[string]string{"api": a.watched(func() { a.startAPI() })}
	s.fund("rich", money.Must("1000.00"))
	waits := s.Account(s.tenant, "waits")
	covers := s.credit(waits, money.Must("100.00"))
	a.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Pending, Delay: time.Hour})
	a.startWorker("settle")
	unknown, unsent := &payout{account: "rich", accountNumber: "0123456780", amount: money.Must("10.00")}, &payout{account: "waits", accountNumber: "0123456781", amount: money.Must("20.00")}
	for _, p := range []*payout{unknown, unsent} {
		ok, err := s.order(p)
		require.NoError(t, err)
		require.True(t, ok)
	}
	a.eventually("two transfers to wait", func() bool {
		return a.count(`SELECT count(*) FROM transfers WHERE status = 'processing' AND ask_count > 0 OR status = 'pending' AND last_error <> ''`) == 2
	})
	a.Exec(`UPDATE transfers SET created_at = created_at - interval '3 hours', submitted_at = submitted_at - interval '40 minutes'`)
	freezes := &freeze.Service{Pool: a.Pool, Clock: clock.System}
	frozen, err := freezes.Begin(t.Context(), freeze.New{Scope: freeze.Tenant, Subject: s.tenant}, audit.By{Actor: "cli:ada", Reason: "a stolen key"})
	require.NoError(t, err)
	a.Exec(`UPDATE freezes SET created_at = created_at - interval '2 hours'`)
	a.fresh(roles, "expire")
	a.look(roles)
	a.must("AjoTransferOutcomeUnknown", "AjoFreezeStands")
	a.mustNot("AjoTransferNotSubmitted") // the freeze stops it, and has an alert of its own
	require.Contains(t, a.follow("AjoFreezeStands", "ajo freeze list"), frozen.ID.String())
	require.Contains(t, a.follow("AjoTransferOutcomeUnknown", "ajo freeze list"), frozen.ID.String())
	require.Contains(t, a.follow("AjoTransferNotSubmitted", "ajo freeze list"), frozen.ID.String())
	a.follow("AjoFreezeStands", "ajo freeze lift", "<freeze>", frozen.ID.String())
	a.fresh(roles, "expire")
	a.look(roles)
	a.must("AjoTransferNotSubmitted")

	require.Contains(t, a.follow("AjoTransferOutcomeUnknown", "ajo transfers list"), unknown.ref)
	require.Contains(t, a.follow("AjoTransferOutcomeUnknown", "ajo transfers show", "<merchantTxRef>", unknown.ref), "the bank says that it is under way")
	_, err = a.bank.EndPayout(unknown.ref, fakebank.StatusSuccess)
	require.NoError(t, err)
	a.follow("AjoTransferOutcomeUnknown", "ajo transfers poll", "<merchantTxRef>", unknown.ref)
	a.eventually("the bank's word", func() bool { return s.statusOf(unknown.ref) == "success" })

	require.Contains(t, a.follow("AjoTransferNotSubmitted", "ajo transfers list"), unsent.ref)
	require.Contains(t, a.follow("AjoTransferNotSubmitted", "ajo transfers show", "<merchantTxRef>", unsent.ref), "confirmed")
	a.bank.Faults.Clear()
	s.move(covers, ledger.EventConfirm)
	a.follow("AjoTransferNotSubmitted", "ajo transfers poll", "<merchantTxRef>", unsent.ref)
	a.eventually("the payout", func() bool { return s.statusOf(unsent.ref) == "success" })
	a.fresh(roles, "expire")
	a.quiet(roles, "AjoTransferOutcomeUnknown", "AjoTransferNotSubmitted", "AjoFreezeStands")

	a.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.AlterStatus, Value: fakebank.StatusFailed, Match: unknown.ref})
	a.follow("AjoTransferOutcomeUnknown", "ajo transfers poll", "<merchantTxRef>", unknown.ref)
	a.eventually("the difference", func() bool { return a.count(`SELECT count(*) FROM transfers WHERE differs_since IS NOT NULL`) == 1 })
	a.fresh(roles, "expire")
	a.look(roles)
	a.must("AjoTransferDiffers")
	require.Contains(t, a.follow("AjoTransferDiffers", "ajo transfers list"), unknown.ref)
	require.Contains(t, a.follow("AjoTransferDiffers", "ajo transfers show", "<merchantTxRef>", unknown.ref), "the bank says failed of 10.00")
	a.follow("AjoTransferDiffers", "ajo transfers resolve", "<merchantTxRef>", unknown.ref)
	require.Equal(t, "refunded", s.statusOf(unknown.ref))
	a.fresh(roles, "expire")
	a.quiet(roles, "AjoTransferDiffers")
}

// Payments that nobody posts, that cannot be posted, or that find no account.
func TestAlertsOfEvents(t *testing.T) {
	a := newAlarm(t)
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	old := p.tenant.open("old")
	p.tenant.want(200, "POST", "/v1/accounts/old/expire", nil)
	poster := a.fresh(roles, "ingest")
	a.look(roles)
	dollars := a.payment(fakebank.Payment{NUBAN: p.nuban, Amount: money.Must("5000.00"), Currency: "USD", Wait: true})
	for range 25 {
		a.payment(fakebank.Payment{NUBAN: old.BankAccountNumber, Amount: money.Must("5000.00"), Force: true, Wait: true})
	}
	a.eventually("all to be refused", func() bool { return a.count(`SELECT count(*) FROM inbound_events WHERE status = 'failed'`) == 26 })
	a.look(roles)
	a.must("AjoPostingRefused", "AjoMisdirectedRising")
	a.mustNot("AjoEventsUnposted")

	require.Contains(t, a.follow("AjoPostingRefused", "ajo events list"), dollars.ID)
	require.Contains(t, a.follow("AjoPostingRefused", "ajo reconcile --from"), "unposted")
	refusals := func() string { return runToEnd(t, a.dir, a.settings, "status").out }
	require.Regexp(t, `! payments +that cannot be posted +1 +ajo reconcile open`, refusals())
	a.bank.SetTransaction(dollars.ID, func(tx *fakebank.Transaction) { tx.Currency = "NGN" })
	refused := testenv.Value[string](a.Env, `SELECT id::text FROM inbound_events WHERE provider_txn_ref = $1`, dollars.ID)
	a.follow("AjoPostingRefused", "ajo events repost", "<event>", refused)
	require.Regexp(t, `payments +that cannot be posted +none`, refusals(), "although no run has asked since")
	require.Equal(t, "4975.00", p.tenant.balance("shop-1"))
	require.Contains(t, a.follow("AjoMisdirectedRising", "ajo events list"), "account is expired")
	require.Contains(t, a.follow("AjoMisdirectedRising", "ajo tenant list"), p.tenant.email)
	stray := testenv.Value[string](a.Env, `SELECT id::text FROM inbound_events WHERE category = 'misdirected' LIMIT 1`)
	a.follow("AjoMisdirectedRising", "ajo events assign", "<event>", stray, "<id or reference>", "shop-1", "<id or e-mail>", p.tenant.email)
	require.Equal(t, "9950.00", p.tenant.balance("shop-1"))
	a.quiet(roles, "AjoPostingRefused", "AjoMisdirectedRising")

	poster.Kill()
	late := p.payAndTell(p.nuban, "5000.00")
	a.Exec(`UPDATE inbound_events SET received_at = received_at - interval '10 minutes' WHERE provider_txn_ref = $1`, late.ID)
	a.fresh(roles, "expire")
	a.look(roles)
	a.must("AjoEventsUnposted")
	waiting := testenv.Value[string](a.Env, `SELECT id::text FROM inbound_events WHERE provider_txn_ref = $1`, late.ID)
	require.Contains(t, a.follow("AjoEventsUnposted", "ajo work list"), waiting)
	require.Contains(t, a.follow("AjoEventsUnposted", "ajo work show", "<event>", waiting), "ajo events show "+waiting)
	a.follow("AjoEventsUnposted", "ajo work retry", "<event>", waiting)
	a.followOn("AjoEventsUnposted", "ajo worker")
	a.eventually("the posting", func() bool { return p.tenant.balance("shop-1") == "14925.00" })
	a.fresh(roles, "expire")
	a.quiet(roles, "AjoEventsUnposted")
}

// Payments that the bank does not confirm, and then denies.
func TestAlertsOfConfirmations(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_CONFIRM_MIN_AGE"], a.settings["AJO_RECONCILE_EVERY"], a.settings["AJO_RECONCILE_WINDOW"] = "0s", "1s", "1h"
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	poster := a.startWorker("ingest")
	p.arrive()
	a.eventually("the postings", func() bool { return p.progress().posted == some })
	poster.Stop(syscall.SIGTERM, exitLimit)
	a.Exec(`UPDATE inbound_events SET processed_at = processed_at - interval '3 hours'`)
	a.Exec(`UPDATE work SET due_at = due_at - interval '3 hours'`)
	for _, tx := range p.txs[:2] {
		a.bank.Faults.Add(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.AlterAmount, Match: tx.ID})
	}
	a.fresh(roles, "expire")
	a.look(roles)
	a.must("AjoProvisionalOld")
	old := anID.FindAllString(a.follow("AjoProvisionalOld", "ajo work list"), -1)
	require.Len(t, old, some)
	require.Contains(t, a.follow("AjoProvisionalOld", "ajo events show", "<event>", old[0]), "processed")

	a.startWorker("confirm")
	a.eventually("the bank's answers", func() bool {
		return a.count(`SELECT count(*) FROM ledger_entries WHERE status = 'needs_review'`) == 2 && p.progress().confirmed == some-2
	})
	a.fresh(roles, "expire")
	a.quiet(roles, "AjoProvisionalOld")
	a.must("AjoPaymentNeedsReview")

	require.Contains(t, a.follow("AjoPaymentNeedsReview", "ajo review list"), "the bank's record differs")
	eventOf := func(tx fakebank.Transaction) string {
		return testenv.Value[string](a.Env, `SELECT id::text FROM inbound_events WHERE provider_txn_ref = $1`, tx.ID)
	}
	a.follow("AjoPaymentNeedsReview", "ajo review confirm", "<event>", eventOf(p.txs[0]))
	a.follow("AjoPaymentNeedsReview", "ajo review reverse", "<event>", eventOf(p.txs[1]))
	a.fresh(roles, "expire")
	a.quiet(roles, "AjoPaymentNeedsReview")

	// The bank has the second one after all, and both in the sum that the event had.
	a.bank.Faults.Clear()
	a.eventually("a comparison", func() bool { return sample(scrape(roles["worker"]), "ajo_reconcile_exceptions") > 0 })
	a.forget()
	a.look(roles)
	a.must("AjoReconcileExceptions")
	require.Contains(t, a.follow("AjoReconcileExceptions", "ajo reconcile show"), "status_contradicts")
	require.Contains(t, a.follow("AjoReconcileExceptions", "ajo reconcile open"), p.txs[1].ID)
	from := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	a.followTo(1, "AjoReconcileExceptions", "ajo reconcile --from", "--from …", "--from "+from, "--to …", "--to "+time.Now().UTC().Format(time.RFC3339))
	_, err := a.bank.Reverse(t.Context(), p.txs[1].ID)
	require.NoError(t, err)
	a.eventually("another comparison", func() bool { return sample(scrape(roles["worker"]), "ajo_reconcile_exceptions") == 0 })
	a.quiet(roles, "AjoReconcileExceptions")

	// The bank changes what was read and agreed long ago: the daily run would find it, two to three
	// days later, and so does a run by hand.
	a.bank.SetTransaction(p.txs[2].ID, func(tx *fakebank.Transaction) { tx.Amount = money.Must("6000.00") })
	byHand := runToEnd(t, a.dir, a.settings, "reconcile", "--from", "1h")
	require.Equal(t, 1, byHand.code, byHand.out)
	a.eventually("an exception", func() bool { return sample(scrape(roles["worker"]), "ajo_reconcile_exceptions") == 1 })
	a.look(roles)
	a.must("AjoReconcileExceptions")
	a.follow("AjoReconcileExceptions", "ajo reconcile dismiss", "<transaction>", p.txs[2].ID)
	a.eventually("a comparison without it", func() bool { return sample(scrape(roles["worker"]), "ajo_reconcile_exceptions") == 0 })
	a.quiet(roles, "AjoReconcileExceptions")
}

// Payments that the bank is said to have taken back, while it finds nothing at all; then it finds
// them, and one is taken back.
func TestAlertsOfRecalls(t *testing.T) {
	a := newAlarm(t)
	a.settings["AJO_CONFIRM_MIN_AGE"], a.settings["AJO_CONFIRM_DELAYS"] = "0s", "1s"
	var p *paid
	roles := map[string]string{}
	roles["api"] = a.watched(func() { p = a.settle() })
	worker := a.fresh(roles, "ingest,confirm")
	p.arrive()
	a.eventually("the confirmations", func() bool { return p.progress().confirmed == some })
	a.look(roles)
	a.bank.Faults.Set(fakebank.Rule{On: fakebank.OnTransactions, Do: fakebank.NotFound})
	for _, tx := range p.txs[:3] {
		_, err := a.bank.Reverse(t.Context(), tx.ID)
		require.NoError(t, err)
	}
	a.eventually("the doubts", func() bool {
		return a.count(`SELECT count(*) FROM recalls WHERE status = 'open'`) == 3 &&
			sample(scrape(roles["worker"]), `ajo_bank_not_found_doubted_total{kind="transaction"}`) > 0
	})
	a.look(roles)
	a.must("AjoBankFindsNothing")
	a.mustNot("AjoPaymentRecalled", "AjoRecallOpen", "AjoBankFailing")
	a.says(worker, "AjoBankFindsNothing", "alert=not_found_doubted")

	a.Exec(`UPDATE recalls SET opened_at = opened_at - interval '3 hours'`)
	worker = a.fresh(roles, "ingest,confirm")
	a.forget()
	a.look(roles)
	a.must("AjoRecallOpen")
	list := a.follow("AjoRecallOpen", "ajo recalls list")
	for _, tx := range p.txs[:3] {
		require.Contains(t, list, tx.ID)
	}
	eventOf := func(tx fakebank.Transaction) string {
		return testenv.Value[string](a.Env, `SELECT id::text FROM inbound_events WHERE provider_txn_ref = $1 AND status = 'processed'`, tx.ID)
	}
	a.follow("AjoRecallOpen", "ajo recalls keep", "<event>", eventOf(p.txs[0]))
	a.follow("AjoRecallOpen", "ajo recalls reverse", "<event>", eventOf(p.txs[1]))

	a.bank.Faults.Clear()
	a.eventually("the bank's record", func() bool {
		return a.count(`SELECT count(*) FROM recalls r JOIN inbound_events e ON e.id = r.event_id WHERE r.status = 'reversed' AND e.provider_txn_ref = $1`, p.txs[2].ID) == 1
	})
	a.look(roles)
	a.must("AjoPaymentRecalled")
	a.says(worker, "AjoPaymentRecalled", "alert=recalled")
	require.Contains(t, a.follow("AjoPaymentRecalled", "ajo recalls list"), p.txs[2].ID)
	a.follow("AjoPaymentRecalled", "ajo transfers list")
	a.fresh(roles, "ingest,confirm")
	a.quiet(roles, "AjoPaymentRecalled", "AjoRecallOpen", "AjoBankFindsNothing")
}
