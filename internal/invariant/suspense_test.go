package invariant_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// byTenant is how a tenant's program changes an account.
var byTenant = audit.Key(uuid.Max, netip.MustParseAddr("192.0.2.1"))

var returned = audit.By{Actor: "cli:ada", Reason: "the payer mistyped the number"}

// giveBack refunds a misdirected payment, as the operators' command does.
func (w *world) giveBack(event uuid.UUID) (ref string, err error) {
	p, err := w.payments.PlanReturn(w.ctx, event)
	if err != nil {
		return "", err
	}
	return w.returns(p)
}

func (w *world) returns(p payment.Returnable) (ref string, err error) { return w.returnsTo(p, "", "") }

// returnsTo refunds a misdirected payment to another account than the one that paid.
func (w *world) returnsTo(p payment.Returnable, bankCode, accountNumber string) (ref string, err error) {
	return w.transfers.RefundSuspense(w.ctx, transfer.SuspenseRefund{
		EventID: p.Event.ID, Record: p.Record, BankCode: bankCode, AccountNumber: accountNumber, Lock: func(ctx context.Context, tx pg.Tx) error { return payment.LockMisdirected(ctx, tx, p.Event.ID) },
	}, returned)
}

// reversed has the bank's event come that it took a payment back; its record says nothing of it
// yet.
func (w *world) reversed(txn string) {
	w.T.Helper()
	var record fakebank.Transaction
	w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { record = *r })
	record.RequestID = uuid.NewString()
	body := testenv.EventBody(w.T, w.bank.Event(fakebank.PaymentReversal, record))
	signature, timestamp := testenv.Sign(w.T, w.bank, body)
	_, err := w.payments.Receive(w.ctx, payment.InboundRequest{Body: body, Signature: signature, Timestamp: timestamp})
	require.NoError(w.T, err)
}

func (w *world) inSuspense() string {
	w.T.Helper()
	b, err := ledger.ReadTrialBalance(w.ctx, w.Pool, w.Clock.Now().In(clock.Lagos).Format(time.DateOnly))
	require.NoError(w.T, err)
	require.Equal(w.T, "0.00", b.Total.String())
	for _, l := range b.Accounts {
		if l.Account == string(ledger.Suspense) {
			return l.Credit.Sub(l.Debit).String()
		}
	}
	return "none"
}

func (w *world) transferOf(ref string) (id uuid.UUID) {
	w.T.Helper()
	return testenv.Value[uuid.UUID](w.Env, `SELECT id FROM transfers WHERE merchant_tx_ref = $1`, ref)
}

// adoptReturn adopts the refund of a misdirected payment that only the bank has, as after a
// restore.
func (w *world) adoptReturn(txn string) (ref string) {
	w.T.Helper()
	suspense := ledger.Suspense.ID()
	sum := sha256.Sum256([]byte(txn))
	ref = "AJR" + hex.EncodeToString(suspense[8:]) + hex.EncodeToString(sum[:4]) + "00000001"
	_, err := testenv.BankClient(w.T, w.bank, w.Clock).Pay(w.ctx, provider.NewPayout{
		Ref: ref, Amount: money.Must("4975.00"), BankCode: "035", AccountNumber: "0123456789", AccountName: "BOLA OJO", SenderName: "Ajo", Narration: "Refund",
	})
	require.NoError(w.T, err)
	require.NoError(w.T, w.transfers.Adopt(w.ctx, ref, uuid.Nil, returned))
	return ref
}

// returned checks by which refund a misdirected payment goes back, and that it waits for a person
// if there is none.
func (w *world) returned(event uuid.UUID, by string) {
	w.T.Helper()
	shown, err := w.payments.InboundEvent(w.ctx, event)
	require.NoError(w.T, err)
	require.Equal(w.T, by, shown.ReturnedBy)
	state, err := invariant.Light(w.ctx, w.Pool, w.Clock.Now())
	require.NoError(w.T, err)
	require.Equal(w.T, by == "", state.MisdirectedCount == 1)
}

// Misdirected money goes back once, to whom the bank's own record names and whom the bank names as
// the holder; a refund that fails has it in suspense again, and then it may be assigned. It waits
// for a person only while it is there.
func TestMisdirectedMoneyGoesBack(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	txn := testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`)
	require.Equal(t, "4975.00", w.inSuspense())
	w.returned(stray, "")

	// Under another name it does not leave.
	w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { r.SenderName = "Somebody Else" })
	ref, err := w.giveBack(stray)
	require.NoError(t, err)
	require.Equal(t, "0.00", w.inSuspense())
	w.returned(stray, ref)
	_, err = w.giveBack(stray)
	require.ErrorIs(t, err, payment.ErrRefunding)
	_, err = w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
	require.ErrorIs(t, err, payment.ErrRefunding)
	w.advance(w.transferOf(ref), transfer.Failed)
	require.Equal(t, "4975.00", w.inSuspense())
	w.returned(stray, "")
	require.Empty(t, w.verify())

	w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { r.SenderName = "BOLA OJO" })
	ref, err = w.giveBack(stray)
	require.NoError(t, err)
	w.advance(w.transferOf(ref), transfer.Success)
	paid := w.bank.Paid()
	last := paid[len(paid)-1]
	require.Equal(t, []string{ref, "4975.00", "035", "0123456789"}, []string{last.Ref, last.Amount.String(), last.BankCode, last.AccountNumber})
	require.Equal(t, "0.00", w.inSuspense())
	w.returned(stray, ref)
	shown, err := w.transfers.Show(w.ctx, ref)
	require.NoError(t, err)
	require.Equal(t, []string{"suspense", "", "success"}, []string{shown.AccountRef, shown.TenantName, string(shown.Status)})
	_, err = w.giveBack(stray)
	require.ErrorIs(t, err, payment.ErrRefunding)
	_, err = w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
	require.ErrorIs(t, err, payment.ErrRefunding)
	require.Equal(t, 2, testenv.Value[int](w.Env, `SELECT count(*) FROM audit_log WHERE action = 'events.refund' AND reason = $1`, returned.Reason))
	require.Empty(t, w.verify())
}

// givenBackInPart refunds a misdirected payment, of which the bank returns 975.00.
func (w *world) givenBackInPart(stray uuid.UUID) {
	w.T.Helper()
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.PartialRefund, Value: "975.00", Next: 1})
	ref, err := w.giveBack(stray)
	require.NoError(w.T, err)
	w.advance(w.transferOf(ref), transfer.Success)
	w.Clock.Advance(time.Hour)
	_, err = w.transfers.Resolve(w.ctx, ref, transfer.Resolution{Paid: true, Amount: new(money.Must("4000.00"))}, returned)
	require.NoError(w.T, err)
	require.Equal(w.T, "975.00", w.inSuspense())
}

// What the bank returns of a refund is in suspense again, and goes back by another one.
func TestMisdirectedMoneyThatComesBackInPart(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	w.givenBackInPart(stray)
	w.returned(stray, "")
	_, err := w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
	require.ErrorIs(t, err, payment.ErrRefunding, "most of it has gone back")

	p, err := w.payments.PlanReturn(w.ctx, stray)
	require.NoError(t, err)
	require.Equal(t, "975.00", p.Left.String())
	ref, err := w.returns(p)
	require.NoError(t, err)
	_, err = w.returns(p)
	require.ErrorIs(t, err, transfer.ErrRefunded)
	w.advance(w.transferOf(ref), transfer.Success)
	paid := w.bank.Paid()
	last := paid[len(paid)-1]
	require.Equal(t, []string{ref, "975.00"}, []string{last.Ref, last.Amount.String()})
	require.Equal(t, "0.00", w.inSuspense())
	w.returned(stray, testenv.Value[string](w.Env, `SELECT max(merchant_tx_ref) FROM transfers WHERE refund_of IS NOT NULL`))
	_, err = w.giveBack(stray)
	require.ErrorIs(t, err, payment.ErrRefunding)
	require.Empty(t, w.verify())
}

// A refund fails, the payment is assigned, and the bank has paid the refund after all: whom it was
// assigned to has what went back, so the refund is that account's, and suspense is as it was.
func TestMisdirectedMoneyThatGoesBackAfterItsAssignment(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.PaidLate, Delay: time.Minute, Next: 1})
	ref, err := w.giveBack(stray)
	require.NoError(t, err)
	id := w.transferOf(ref)
	w.advance(id, transfer.Failed)
	require.Equal(t, "4975.00", w.inSuspense())
	_, err = w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
	require.NoError(t, err)
	balance := func() string {
		b, err := ledger.ReadBalance(w.ctx, w.Pool, w.account)
		require.NoError(t, err)
		return b.Balance.String()
	}
	before := money.Must(balance())
	w.Clock.Advance(time.Hour)
	resolve := func() error {
		_, err := w.transfers.Resolve(w.ctx, ref, transfer.Resolution{Paid: true}, returned)
		return err
	}
	require.ErrorIs(t, resolve(), transfer.ErrAssignedOpen, "the bank has not confirmed it there")
	w.confirm(stray)
	require.NoError(t, resolve())
	require.Equal(t, "0.00", w.inSuspense())
	require.Equal(t, before.Sub(money.Must("4975.00")).String(), balance())
	require.Empty(t, w.verify())
	shown, err := w.transfers.Show(w.ctx, ref)
	require.NoError(t, err)
	require.Equal(t, []string{"shop", "success"}, []string{shown.AccountRef, string(shown.Status)})
	entry := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit'`, stray)
	_, err = w.transfers.Refund(w.ctx, w.tenant, entry, "", transfer.Maker{}, idempotency.Request{})
	require.ErrorIs(t, err, transfer.ErrRefunded, "it has gone back")
	require.ErrorIs(t, resolve(), transfer.ErrAgrees)

	_, err = w.bank.EndPayout(ref, fakebank.StatusRefund)
	require.NoError(t, err)
	w.advance(id, transfer.Refunded)
	require.Equal(t, before.String(), balance())
	require.Equal(t, "0.00", w.inSuspense())
	require.Empty(t, w.verify())
}

// The account that paid is closed, and a part has gone back already: the rest goes to another
// account of the sender, and to nobody else's.
func TestMisdirectedMoneyGoesBackToAnotherAccount(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	txn := testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`)
	w.givenBackInPart(stray)
	w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { r.SenderName, r.SenderAccount = "Chidi Okeke", "0001234567" })
	p, err := w.payments.PlanReturn(w.ctx, stray)
	require.NoError(t, err)
	_, err = w.returnsTo(p, "", "1234567890")
	require.ErrorIs(t, err, transfer.ErrBankCode)
	_, err = w.returnsTo(p, "058", "123")
	require.ErrorIs(t, err, transfer.ErrAccountNumber)
	for _, to := range [][2]string{{"", ""}, {"058", "2222222222"}} { // the one that paid, which is closed; somebody else's
		ref, err := w.returnsTo(p, to[0], to[1])
		require.NoError(t, err)
		w.advance(w.transferOf(ref), transfer.Failed)
		require.Equal(t, "975.00", w.inSuspense())
	}
	ref, err := w.returnsTo(p, "058", "1234567890")
	require.NoError(t, err)
	w.advance(w.transferOf(ref), transfer.Success)
	paid := w.bank.Paid()
	last := paid[len(paid)-1]
	require.Equal(t, []string{ref, "975.00", "058", "1234567890"}, []string{last.Ref, last.Amount.String(), last.BankCode, last.AccountNumber})
	require.Equal(t, "0.00", w.inSuspense())
	require.Empty(t, w.verify())
}

// What the bank has taken back, does not know or knows otherwise, and what is not misdirected, is
// not refunded.
func TestMisdirectedMoneyThatStays(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	txn := testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`)
	posted := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE category = 'payment' LIMIT 1`)
	_, err := w.giveBack(posted)
	require.ErrorIs(t, err, payment.ErrNotMisdirected)
	_, err = w.giveBack(uuid.New())
	require.ErrorIs(t, err, payment.ErrEventNotFound)
	for why, change := range map[string]func(*fakebank.Transaction){
		"the bank says refunded":  func(r *fakebank.Transaction) { r.Status = fakebank.StatusRefund },
		"differs: NGN 1.00":       func(r *fakebank.Transaction) { r.Amount = money.Must("1.00") },
		"with a fee of 1.00":      func(r *fakebank.Transaction) { r.Fee = money.Must("1.00") },
		"differs: USD":            func(r *fakebank.Transaction) { r.Currency = "USD" },
		"does not know":           func(r *fakebank.Transaction) { r.Hidden = true },
		"does not say from which": func(r *fakebank.Transaction) { r.SenderAccount = "" },
	} {
		var was fakebank.Transaction
		w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { was = *r; change(r) })
		_, err := w.giveBack(stray)
		require.ErrorContains(t, err, why)
		w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { *r = was })
	}
	require.Equal(t, "4975.00", w.inSuspense())

	// The bank's event says so first; its record lags.
	p, err := w.payments.PlanReturn(w.ctx, stray)
	require.NoError(t, err)
	w.reversed(txn)
	_, err = w.giveBack(stray)
	require.ErrorIs(t, err, payment.ErrTakenBack)
	_, err = w.returns(p)
	require.ErrorIs(t, err, payment.ErrTakenBack)
	require.Equal(t, "4975.00", w.inSuspense())
}

// A refund that has not left when the bank takes the payment back does not leave, whether its event
// says so or its record alone, and before each submission.
func TestMisdirectedMoneyThatIsTakenBackOnItsWay(t *testing.T) {
	silently := func(w *world, txn string) {
		w.bank.SetTransaction(txn, func(r *fakebank.Transaction) { r.Status = fakebank.StatusRefund })
	}
	for name, c := range map[string]struct {
		takes func(w *world, txn string)
		lost  bool // the first submission
	}{"by its event": {(*world).reversed, false}, "by its record": {silently, false}, "by its record, later": {silently, true}} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
			ref, err := w.giveBack(stray)
			require.NoError(t, err)
			require.Equal(t, "0.00", w.inSuspense())
			id, paid := w.transferOf(ref), len(w.bank.Paid())
			if c.lost {
				w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Drop, Next: 1})
				require.Error(t, w.transfers.Advance(w.ctx, id))
			}
			c.takes(w, testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`))
			w.advance(id, transfer.Failed)
			require.Len(t, w.bank.Paid(), paid)
			require.Equal(t, "4975.00", w.inSuspense())
			require.Empty(t, w.verify())
		})
	}
}

// The bank's event comes after the refund was claimed, while the bank names the holder, or while it
// is asked about a submission that was lost: the refund is not submitted then either.
func TestMisdirectedMoneyThatIsTakenBackWhileTheBankIsAsked(t *testing.T) {
	for name, lost := range map[string]bool{"before the first submission": false, "before another": true} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
			txn := testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`)
			ref, err := w.giveBack(stray)
			require.NoError(t, err)
			id := w.transferOf(ref)
			asked := fakebank.OnLookup
			if lost {
				asked = fakebank.OnPayoutStatus
				w.bank.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Drop, Next: 1})
				for range 3 { // the submission, and two questions
					_ = w.transfers.Advance(w.ctx, id)
					w.Clock.Set(*w.DueAt(work.Settle, id))
				}
			}
			const payCall = "POST /v2/transfers/bank"
			submissions, paid := w.bank.Calls(payCall), len(w.bank.Paid())
			heard := make(chan struct{})
			w.bank.Faults.Set(fakebank.Rule{On: asked, Do: fakebank.SlowAfter, Delay: time.Minute, Until: heard, Next: 1})
			var wg sync.WaitGroup
			wg.Go(func() { _ = w.transfers.Advance(w.ctx, id) }) // what becomes of the transfer counts
			testenv.Eventually(t, time.Minute, "the bank is asked", func() bool { return w.bank.Faults.Rules()[0].Struck == 1 })
			w.reversed(txn)
			close(heard)
			wg.Wait()
			require.Equal(t, submissions, w.bank.Calls(payCall))
			w.advance(id, transfer.Failed)
			require.Len(t, w.bank.Paid(), paid)
			require.Equal(t, "4975.00", w.inSuspense())
			require.Empty(t, w.verify())
		})
	}
}

// Refunds and assignments of one payment at once: one of them does it.
func TestMisdirectedMoneyGoesOneWay(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	p, err := w.payments.PlanReturn(w.ctx, stray)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for i := range 8 {
		wg.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = w.returns(p)
			} else {
				_, err = w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done++
			case !errors.Is(err, payment.ErrRefunding) && !errors.Is(err, transfer.ErrRefunded) && !errors.Is(err, payment.ErrNotMisdirected):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, done)
	require.Equal(t, "0.00", w.inSuspense())
	require.Empty(t, w.verify())
}

// A refund out of suspense that only the bank has, as after a restore, is adopted there as what it
// is: the payment neither goes back a second time nor is assigned.
func TestReturnedMoneyIsAdopted(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	txn := testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`)
	ref := w.adoptReturn(txn)
	require.Equal(t, "0.00", w.inSuspense())
	_, err := w.giveBack(stray)
	require.ErrorIs(t, err, payment.ErrRefunding)
	_, err = w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
	require.ErrorIs(t, err, payment.ErrRefunding)
	w.advance(w.transferOf(ref), transfer.Success)
	require.Empty(t, w.verify())
}

// A payment that was assigned before its refund was adopted waits for nobody, and does not make
// those that wait fewer.
func TestReturnedMoneyIsAdoptedAfterAnAssignment(t *testing.T) {
	w := setup(t)
	stray := testenv.Value[uuid.UUID](w.Env, `SELECT id FROM inbound_events WHERE misdirected`)
	txn := testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE misdirected`)
	_, err := w.payments.Assign(w.ctx, stray, payment.Destination{AccountID: w.account}, returned)
	require.NoError(t, err)
	w.adoptReturn(txn)
	state, err := invariant.Light(w.ctx, w.Pool, w.Clock.Now())
	require.NoError(t, err)
	require.Zero(t, state.MisdirectedCount)
}
