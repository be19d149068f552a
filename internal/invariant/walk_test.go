package invariant_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/account"
	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/fee"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/invariant"
	"ajo/internal/limit"
	"ajo/internal/mail"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/reconcile"
	"ajo/internal/retry"
	"ajo/internal/secret"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
	"ajo/internal/work"
	"ajo/ledger"
)

// A walk is dear: it lives through weeks. make test takes the same each time, make test-walk draws
// others.
func init() {
	for name, value := range map[string]string{"rapid.checks": "1", "rapid.seed": "1"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// Whatever bank, tenants and operators do in whatever order, the books hold after each step. In the
// end, when the bank has done what it will and all work is done, the wallet is what the books say,
// but for what an operator is shown (ends).
func TestWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		w := newWalk(tried{t, r})
		steps := map[string]func(*rapid.T){"": func(*rapid.T) { w.stands() }}
		for name, s := range w.steps() {
			for n := range s.weight {
				steps[fmt.Sprintf("%s %d", name, n)] = func(r *rapid.T) {
					w.r = r
					w.Clock.Advance(time.Millisecond)
					s.do()
				}
			}
		}
		r.Repeat(steps)
		w.r = r
		w.rests()
		w.ends()
	})
}

// tried is one try of a property, as a test: what is made for it ends with it.
type tried struct {
	testing.TB
	r *rapid.T
}

func (t tried) Cleanup(f func())               { t.r.Cleanup(f) }
func (t tried) Helper()                        {}
func (t tried) Logf(format string, a ...any)   { t.r.Logf(format, a...) }
func (t tried) Log(a ...any)                   { t.r.Log(a...) }
func (t tried) Errorf(format string, a ...any) { t.r.Errorf(format, a...) }
func (t tried) Error(a ...any)                 { t.r.Error(a...) }
func (t tried) Fatalf(format string, a ...any) { t.r.Fatalf(format, a...) }
func (t tried) Fatal(a ...any)                 { t.r.Fatal(a...) }
func (t tried) FailNow()                       { t.r.FailNow() }
func (t tried) Fail()                          { t.r.Fail() }
func (t tried) Failed() bool                   { return t.r.Failed() }

// place is an account at the bank; its tenant is zero where no tenant has it.
type place struct {
	tenant, id uuid.UUID
	ref        string
}

// walk is a service with its bank and what was done so far.
type walk struct {
	*testenv.Env
	r         *rapid.T
	ctx       context.Context
	bank      *fakebank.Bank
	client    *nomba.Client
	payments  *payment.Service
	transfers *transfer.Service
	accounts  *account.Service
	recon     *reconcile.Service
	tenants   *tenant.Service
	customers *customer.Service
	freezes   *freeze.Service
	limits    *limit.Service

	two    []uuid.UUID // the tenants
	places []place     // the last is nobody's
	events [][]byte    // that were sent
	count  int         // of destinations, references and the like
}

// The fees of the bank are what a payer's small payment is exactly worth, once.
var sums = []string{"5000.00", "5000.00", "4000.00", "10.00", "10.01", "777.77", "60000.00"}

func newWalk(t tried) *walk {
	e := testenv.New(t)
	w := &walk{Env: e, r: t.r, ctx: context.Background()}
	w.bank = e.Bank(fakebank.Options{
		PayoutFee: money.Must("20.00"), PayoutVAT: money.Must("1.50"), PayoutDelay: time.Duration(rapid.SampledFrom([]int{0, 1, 40}).Draw(t.r, "payout minutes")) * time.Minute,
	})
	w.client = testenv.BankClient(t, w.bank, e.Clock)
	log := slog.New(slog.DiscardHandler)
	bank := provider.Doubt(provider.DoubtOptions{Bank: w.client, Clock: e.Clock, Log: log, Known: provider.KnownRecords{
		Transaction: func(ctx context.Context) (string, error) { return payment.KnownAtBank(ctx, e.Pool, uuid.Nil) },
		Payout:      func(ctx context.Context) (string, error) { return transfer.KnownPayout(ctx, e.Pool) },
		Account:     func(ctx context.Context) (string, error) { return account.KnownAtBank(ctx, e.Pool) },
		Destination: func(ctx context.Context) (provider.Destination, error) { return transfer.KnownDestination(ctx, e.Pool) },
	}})
	box, err := secret.ParseKeys(secret.NewKey("walk").Reveal())
	require.NoError(t, err)
	w.accounts = account.New(account.Options{Pool: e.Pool, Bank: bank, Box: box, Clock: e.Clock})
	w.payments = payment.New(payment.Options{
		Pool: e.Pool, Bank: bank, Clock: e.Clock, Log: log, WebhookSecret: secret.Redact(fakebank.DefaultWebhookSecret),
		ConfirmDelays: defaults.ConfirmDelays, ConfirmMisses: 3, ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
	})
	t.Cleanup(w.payments.Close)
	w.transfers = transfer.New(transfer.Options{
		Pool: e.Pool, Bank: bank, Clock: e.Clock, Log: log, Delays: defaults.SettleDelays, Rechecks: defaults.SettleRechecks, Fees: fee.Tiers{{Fee: money.Must("10.00")}},
	})
	t.Cleanup(w.transfers.Close)
	w.payments.SendBack, w.payments.ExpeditePayouts, w.transfers.OpenRecall = w.transfers.RefundByPolicy, w.transfers.ExpediteTx, w.payments.RecallTakenBack
	w.recon = reconcile.New(reconcile.Options{Pool: e.Pool, Bank: bank, Payments: w.payments, Transfers: w.transfers, Clock: e.Clock, Log: log, MinAge: 30 * time.Minute})
	w.tenants = tenant.New(tenant.Options{Pool: e.Pool, Clock: e.Clock, Box: box, Mail: mail.Nowhere{}, Log: log})
	t.Cleanup(func() { require.NoError(t, w.tenants.Close(w.ctx)) })
	w.customers = customer.New(customer.Options{Pool: e.Pool, Box: box, Clock: e.Clock, Log: log})
	w.freezes, w.limits = &freeze.Service{Pool: e.Pool, Clock: e.Clock}, &limit.Service{Pool: e.Pool, Clock: e.Clock}
	w.opens()
	// from now on none is missed
	_, _, _, err = w.recon.RunDue(w.ctx, 15*time.Minute, 24*time.Hour)
	require.NoError(t, err)
	_, _, err = w.recon.RunDaily(w.ctx, 72*time.Hour)
	require.NoError(t, err)
	return w
}

// opens makes two tenants with their accounts and what was agreed with them.
func (w *walk) opens() {
	w.two = []uuid.UUID{w.Tenant(), w.Tenant()}
	for _, id := range w.two {
		w.Subscribe(id, "{payment.confirmed,payment.reversed,settlement.succeeded,settlement.failed,settlement.refunded}")
		if w.yes("the tenant bears the bank's fee") {
			w.Exec(`UPDATE tenants SET payout_fee_by = 'tenant' WHERE id = $1`, id)
		}
		if w.yes("payouts need approval") {
			w.Exec(`UPDATE tenants SET payout_approvals = 1, approve_above = 1000 WHERE id = $1`, id)
		}
	}
	if w.yes("prices") {
		prices := &fee.Prices{Pool: w.Pool, Clock: w.Clock}
		for on, percent := range map[fee.On]string{fee.OnPayment: "1", fee.OnPayout: "0.5", fee.OnVAT: "7.5"} {
			p := fee.Price{On: on, Percent: money.MustRate(percent)}
			if on != fee.OnVAT {
				p.Flat = money.Must("5.00")
			}
			_, err := prices.Set(w.ctx, p, returned)
			require.NoError(w.T, err)
		}
		w.Clock.Advance(fee.Lead)
	}
	first, other := w.two[0], w.two[1]
	expected := money.Must("5000.00")
	w.provisions(first, account.NewAccount{ExternalRef: "shop"})
	w.provisions(first, account.NewAccount{ExternalRef: "party"})
	w.provisions(first, account.NewAccount{ExternalRef: "shared"})
	w.provisions(first, account.NewAccount{ExternalRef: "expects", ExpectedAmount: &expected, Policy: &account.Policy{Under: account.Refund, Over: account.Hold, Late: account.Refund}})
	w.provisions(other, account.NewAccount{ExternalRef: "other"})
	w.provisions(other, account.NewAccount{ExternalRef: "once", Mode: "onetime", ExpectedAmount: &expected, ExpiresAt: new(w.Clock.Now().Add(6 * time.Hour)), Policy: w.policy()})
	_, err := w.accounts.Update(w.ctx, first, "shared", account.Changes{Split: &[]account.NewShare{{AccountRef: "party", Percent: "30"}, {AccountRef: "shop", Amount: "500.00"}}}, byTenant)
	require.NoError(w.T, err)
	stray := uuid.New()
	_, err = w.client.CreateAccount(w.ctx, provider.NewAccount{Ref: stray.String(), Name: "Nobody We Know"})
	require.NoError(w.T, err)
	w.places = append(w.places, place{id: stray})
}

func (w *walk) policy() *account.Policy {
	actions := rapid.SampledFrom([]account.Action{"", account.Accept, account.Hold, account.Refund})
	return &account.Policy{Exact: actions.Draw(w.r, "exact"), Under: actions.Draw(w.r, "under"), Over: actions.Draw(w.r, "over"), Late: actions.Draw(w.r, "late")}
}

func (w *walk) provisions(tenant uuid.UUID, a account.NewAccount) {
	a.Name = "Ada Obi Stores"
	p, err := w.accounts.Provision(w.ctx, tenant, a, idempotency.Request{})
	w.asked(err)
	if err == nil {
		w.places = append(w.places, place{tenant, p.ID, a.ExternalRef})
	}
}

// asked takes a refusal for an answer. Anything else is a failure.
func (w *walk) asked(err error) {
	if _, waits := retry.When(err); err != nil && errs.As(err) == nil && !waits {
		w.r.Fatalf("%v", err)
	}
}

func (w *walk) yes(what string) bool { return rapid.Bool().Draw(w.r, what) }

// one draws one of several; it skips the step where there is none.
func one[T any](w *walk, of []T, what string) T {
	if len(of) == 0 {
		w.r.Skip("none:", what)
	}
	return of[rapid.IntRange(0, len(of)-1).Draw(w.r, what)]
}

// some draws one of the ids, or other values, of a query.
func some[T any](w *walk, what, sql string, args ...any) T {
	return one(w, testenv.Value[[]T](w.Env, `SELECT coalesce(array_agg(x), '{}') FROM (`+sql+`) q (x)`, args...), what)
}

func (w *walk) own(what string) place { return one(w, w.places[:len(w.places)-1], what) }

func (w *walk) sum(what string) string {
	if w.yes("a sum like any") {
		return money.FromKobo(rapid.Int64Range(10_02, 6000_00).Draw(w.r, what)).String()
	}
	return rapid.SampledFrom(sums).Draw(w.r, what)
}

// step is what may happen next, and how likely.
type step struct {
	weight int
	do     func()
}

// stands checks what must hold at any time.
func (w *walk) stands() {
	testenv.FindsNothing(w.T, w.Pool, invariant.Verify)
}

func (w *walk) steps() map[string]step {
	return map[string]step{
		"pay": {4, w.pay}, "an event again": {1, w.again}, "the bank takes back": {2, w.takesBack}, "the bank says otherwise": {1, w.changesItsRecord},
		"settle": {3, w.settle}, "refund": {2, w.refund}, "book": {1, w.book}, "hold": {1, w.hold}, "release": {1, w.release},
		"work": {5, w.work}, "time": {4, w.time}, "reconcile": {2, w.reconcile},
		"the bank errs": {2, w.errs}, "a payout ends": {2, w.endsPayout},
		"freeze": {1, w.freeze}, "suspend": {1, w.suspend}, "limits": {1, w.limit}, "tier": {1, w.tier}, "decide": {1, w.decide},
		"close": {1, w.closes}, "open": {1, w.opensAgain},
		"misdirected": {2, w.misdirected}, "review": {1, w.review}, "restore": {1, w.restore}, "recall": {1, w.recall}, "resolve": {1, w.resolve},
		"adopt": {1, w.adopt}, "dismiss": {1, w.dismiss}, "terms": {2, w.terms},
	}
}

// pay makes a payment, whose record or event may be odd.
func (w *walk) pay() {
	to := one(w, w.places, "to")
	p := fakebank.Payment{AccountRef: to.id.String(), Amount: money.Must(w.sum("gross")), Silent: true, Force: true}
	if p.SenderName = "BOLA OJO"; w.yes("from an unknown bank") {
		p.SenderBank = "A Bank Nobody Knows"
	}
	if w.yes("late") {
		p.Time = w.Clock.Now().Add(-2 * time.Hour)
	}
	record := rapid.SampledFrom([]string{"", "", "", "", "", "another sum", "another fee", fakebank.StatusFailed, fakebank.StatusPending, "hidden", "listed otherwise"}).Draw(w.r, "record")
	p.Recorded = func(t *fakebank.Transaction) {
		switch record {
		case "", "listed otherwise":
		case "another sum":
			t.Amount = t.Amount.Add(money.Must("1.00"))
		case "another fee":
			t.Fee = money.Zero
		case "hidden":
			t.Hidden = true
		default:
			t.Status = record
		}
	}
	t, err := w.bank.Pay(w.ctx, p)
	require.NoError(w.T, err)
	if record == "listed otherwise" {
		w.bank.SetTransaction(t.ID, func(x *fakebank.Transaction) { x.ListedAs = strings.ToLower(x.ID) })
	}
	switch rapid.SampledFrom([]string{"comes", "comes", "comes", "comes", "never", "twice", "twice, under another id"}).Draw(w.r, "event") {
	case "comes":
		w.sends(fakebank.PaymentSuccess, t)
	case "twice":
		w.sends(fakebank.PaymentSuccess, t)
		w.receives(w.events[len(w.events)-1])
	case "twice, under another id":
		w.sends(fakebank.PaymentSuccess, t)
		t.RequestID = uuid.NewString()
		w.sends(fakebank.PaymentSuccess, t)
	}
}

// wallet is what is in the wallet by the bank's own records.
func (w *walk) wallet() money.Amount {
	sum := money.Zero
	for _, t := range w.bank.Transactions() {
		sum = sum.Add(received(t))
	}
	for _, p := range w.payouts() {
		sum = sum.Sub(left(p))
	}
	return sum
}

// payouts are the bank's, as they are now.
func (w *walk) payouts() []fakebank.Payout {
	_ = w.bank.Wallet() // the bank does what is due
	return w.bank.Payouts()
}

// received is what a payment has brought to the wallet.
func received(t fakebank.Transaction) money.Amount {
	if t.Status != fakebank.StatusSuccess {
		return money.Zero
	}
	return t.Amount.Sub(t.Fee)
}

// left is what a payout has taken from the wallet.
func left(p fakebank.Payout) money.Amount {
	charges := p.Fee.Add(p.VAT).Add(p.StampDuty)
	switch {
	case p.Status == fakebank.StatusRefund && p.Back != nil:
		return p.Amount.Sub(*p.Back).Add(charges)
	case p.Status != fakebank.StatusRefund && p.Status != fakebank.StatusFailed:
		return p.Amount.Add(charges)
	case p.FeeKept:
		return charges
	}
	return money.Zero
}

// sends has an event come about a payment, with what the wallet has.
func (w *walk) sends(kind string, t fakebank.Transaction) {
	w.sendsEvent(w.bank.Event(kind, t))
}

func (w *walk) sendsEvent(e fakebank.Event) {
	e.Data.Merchant.WalletBalance = json.RawMessage(w.wallet().String())
	w.receives(testenv.EventBody(w.T, e))
}

func (w *walk) receives(body []byte) {
	w.events = append(w.events, body)
	signature, timestamp := testenv.Sign(w.T, w.bank, body)
	_, err := w.payments.Receive(w.ctx, payment.InboundRequest{Body: body, Signature: signature, Timestamp: timestamp})
	require.NoError(w.T, err)
}

func (w *walk) again() { w.receives(one(w, w.events, "event")) }

// takesBack has the bank take a payment back, or only say so. Who finds out about an old one, if no
// event comes, is the comparison of the wallet alone.
func (w *walk) takesBack() {
	t := one(w, w.bank.Transactions(), "payment")
	truly := w.yes("truly")
	if truly {
		if _, err := w.bank.ReverseSilently(w.ctx, t.ID); err != nil {
			w.r.Skip(err)
		}
	}
	if t.RequestID = uuid.NewString(); truly && w.old(t.Time) || w.yes("its event comes") {
		w.sends(rapid.SampledFrom([]string{fakebank.PaymentReversal, fakebank.PaymentReversal, fakebank.PaymentFailed}).Draw(w.r, "event"), t)
	}
}

// old reports whether the day of a time may have been read for the last time.
func (w *walk) old(t time.Time) bool { return w.Clock.Now().Sub(t) > 47*time.Hour }

// changesItsRecord has the bank say something else of a payment than before.
func (w *walk) changesItsRecord() {
	t := one(w, w.bank.Transactions(), "payment")
	status := rapid.SampledFrom([]string{fakebank.StatusSuccess, fakebank.StatusSuccess, fakebank.StatusFailed}).Draw(w.r, "status")
	if w.old(t.Time) {
		w.r.Skip("nobody looks any more")
	}
	w.bank.SetTransaction(t.ID, func(x *fakebank.Transaction) { x.Status, x.Hidden = status, false })
}

func (w *walk) settle() {
	from := w.own("from")
	w.count++
	_, err := w.transfers.Settle(w.ctx, from.tenant, from.ref, transfer.Order{Amount: w.sum("amount"), BankCode: "058", AccountNumber: fmt.Sprintf("7%09d", w.count)}, idempotency.Request{})
	w.asked(err)
}

func (w *walk) refund() {
	entry := some[uuid.UUID](w, "payment", `SELECT id FROM ledger_entries WHERE direction = 'credit' AND kind = '' AND reversal_of IS NULL AND tenant_id = ANY($1) ORDER BY id`, w.two)
	amount := ""
	if w.yes("a part") {
		amount = "100.00"
	}
	_, err := w.transfers.Refund(w.ctx, testenv.Value[uuid.UUID](w.Env, `SELECT tenant_id FROM ledger_entries WHERE id = $1`, entry), entry, amount, transfer.Maker{}, idempotency.Request{})
	w.asked(err)
}

func (w *walk) book() {
	from, to := w.own("from"), w.own("to")
	_, err := w.accounts.Transfer(w.ctx, from.tenant, from.ref, account.BookOrder{ToAccountRef: to.ref, Amount: w.sum("amount")}, idempotency.Request{})
	w.asked(err)
}

func (w *walk) hold() {
	on := w.own("on")
	n := account.NewHold{Amount: w.sum("amount"), Reason: "dispute"}
	if w.yes("it ends by itself") {
		n.Until = new(w.Clock.Now().Add(time.Hour))
	}
	_, err := w.accounts.PlaceHold(w.ctx, on.tenant, on.ref, n, idempotency.Request{})
	w.asked(err)
}

func (w *walk) release() {
	id := some[uuid.UUID](w, "hold", `SELECT id FROM holds WHERE status = 'open' ORDER BY id`)
	if w.yes("an operator does") {
		_, err := account.ReleaseHoldByHand(w.ctx, w.Pool, w.Clock.Now(), id, returned)
		w.asked(err)
		return
	}
	_, err := w.accounts.ReleaseHold(w.ctx, testenv.Value[uuid.UUID](w.Env, `SELECT tenant_id FROM holds WHERE id = $1`, id), id, returned, idempotency.Request{})
	w.asked(err)
}

// work does what is due; what comes of it may be due at once.
func (w *walk) work() {
	for range 3 {
		now := w.Clock.Now()
		due := func(k work.Kind) []uuid.UUID { return w.Overdue(k, now, now.Add(time.Microsecond), 1000) }
		for _, o := range w.payments.PostAll(w.ctx, due(work.Ingest)) {
			w.asked(o.Err)
		}
		for _, kind := range []work.Kind{work.Confirm, work.Settle, work.Expire} {
			for _, id := range due(kind) {
				w.asked(map[work.Kind]func(context.Context, uuid.UUID) error{
					work.Confirm: w.payments.Confirm, work.Settle: w.transfers.Advance, work.Expire: w.accounts.AdvanceExpiry,
				}[kind](w.ctx, id))
			}
		}
	}
}

// time passes. What the bank's list lacks is in it while the day is still read.
func (w *walk) time() {
	by := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, 31 * time.Minute, 3 * time.Hour, 25 * time.Hour, 80 * time.Hour}).Draw(w.r, "by")
	if by > 24*time.Hour {
		for _, t := range w.bank.Transactions() {
			w.bank.SetTransaction(t.ID, func(x *fakebank.Transaction) { x.Hidden = false })
		}
	}
	w.Clock.Advance(by)
}

func (w *walk) reconcile() {
	if w.yes("the day") {
		w.reconcileDay()
		return
	}
	w.reconcileDue()
}

func (w *walk) reconcileDay() {
	_, _, err := w.recon.RunDaily(w.ctx, 72*time.Hour)
	w.unheard(err)
}

func (w *walk) reconcileDue() {
	for more := true; more; {
		var err error
		_, _, more, err = w.recon.RunDue(w.ctx, 15*time.Minute, 24*time.Hour)
		w.unheard(err)
	}
}

// unheard takes an answer that the bank did not give for none.
func (w *walk) unheard(err error) {
	if err != nil && len(w.bank.Faults.Rules()) == 0 {
		w.r.Fatalf("%v", err)
	}
}

// errs has the bank answer oddly to what it is asked next, or do something else with a payout.
func (w *walk) errs() {
	if w.yes("no more") {
		w.bank.Faults.Clear()
		return
	}
	rule := fakebank.Rule{On: fakebank.OnPayouts, Next: rapid.IntRange(1, 3).Draw(w.r, "times"), Delay: time.Duration(rapid.SampledFrom([]int{0, 10, 60, 2000}).Draw(w.r, "minutes")) * time.Minute}
	if w.yes("about questions") {
		rule.On = rapid.SampledFrom([]fakebank.Group{fakebank.OnTransactions, fakebank.OnPayoutStatus}).Draw(w.r, "questions")
		rule.Delay = 0
		rule.Do = rapid.SampledFrom([]fakebank.Action{fakebank.Fail, fakebank.Drop, fakebank.NotFound, fakebank.WrongRecord, fakebank.Garbage, fakebank.Gateway, fakebank.Empty}).Draw(w.r, "does")
	} else {
		rule.Do = rapid.SampledFrom([]fakebank.Action{
			fakebank.Reject, fakebank.Pending, fakebank.Processing, fakebank.FailLater, fakebank.Refund, fakebank.Duplicate, fakebank.Lagging, fakebank.PaidLate, fakebank.FailedLate,
			fakebank.PartialRefund, fakebank.FailKept, fakebank.RefundKept, fakebank.NoFee, fakebank.Drop, fakebank.DropAfter, fakebank.Fail, fakebank.FailAfter, fakebank.Garbage,
		}).Draw(w.r, "does")
	}
	w.bank.Faults.Add(rule)
}

// endsPayout has the bank give a payout back, or end it, with its event or without; or it only says
// what it said before.
func (w *walk) endsPayout() {
	p := one(w, w.payouts(), "payout")
	status := rapid.SampledFrom([]string{"", fakebank.StatusSuccess, fakebank.StatusFailed, fakebank.StatusRefund, fakebank.StatusRefund}).Draw(w.r, "status")
	if status != "" {
		ended, err := w.bank.EndPayout(p.Ref, status)
		if err != nil {
			w.r.Skip(err)
		}
		p = ended
	}
	kind := map[string]string{fakebank.StatusSuccess: fakebank.PayoutSuccess, fakebank.StatusFailed: fakebank.PayoutFailed, fakebank.StatusRefund: fakebank.PayoutRefund}[p.Status]
	if kind == "" || !(status != "" && w.old(p.CreatedAt)) && !w.yes("its event comes") {
		return
	}
	e := w.bank.Event(kind, fakebank.Transaction{ID: p.ID, RequestID: uuid.NewString(), Amount: p.Amount, Time: w.Clock.Now()})
	e.Data.Transaction.MerchantTxRef = p.Ref
	w.sendsEvent(e)
}

func (w *walk) freeze() {
	if w.yes("one is lifted") {
		_, err := w.freezes.Lift(w.ctx, some[uuid.UUID](w, "freeze", `SELECT id FROM freezes WHERE lifted_at IS NULL ORDER BY id`), returned)
		w.asked(err)
		return
	}
	n := freeze.New{Scope: rapid.SampledFrom([]freeze.Scope{freeze.Account, freeze.Tenant, freeze.Payouts}).Draw(w.r, "scope")}
	switch on := w.own("on"); n.Scope {
	case freeze.Account:
		n.Subject = on.id
	case freeze.Tenant:
		n.Subject = on.tenant
	}
	if w.yes("it ends by itself") {
		n.Until = new(w.Clock.Now().Add(2 * time.Hour))
	}
	_, err := w.freezes.Begin(w.ctx, n, returned)
	w.asked(err)
}

func (w *walk) suspend() {
	id := one(w, w.two, "tenant")
	do := w.tenants.Activate
	if w.yes("suspended") {
		do = w.tenants.Suspend
	}
	_, err := do(w.ctx, id, returned)
	w.asked(err)
}

func (w *walk) limit() {
	id := one(w, w.two, "tenant")
	most := func(what string) *money.Amount {
		if w.yes("unlimited") {
			return nil
		}
		return new(money.Must(rapid.SampledFrom([]string{"0.00", "1000.00", "4990.00", "9000.00"}).Draw(w.r, what)))
	}
	var err error
	if w.yes("of payouts") {
		_, err = w.limits.SetPayouts(w.ctx, id, time.Time{}, limit.Payouts{MaxTransfer: most("transfer"), MaxAccountDay: most("account's day"), MaxTenantDay: most("tenant's day")}, returned)
	} else {
		_, err = w.limits.SetTier(w.ctx, id, time.Time{}, limit.Tier{Tier: rapid.IntRange(1, 2).Draw(w.r, "tier"), MaxDeposit: most("deposit"), MaxDay: most("day"), MaxBalance: most("balance")}, returned)
	}
	w.asked(err)
}

// terms changes what was agreed with a tenant, or what an account's owner wants done with payments.
func (w *walk) terms() {
	id := one(w, w.two, "tenant")
	switch rapid.IntRange(0, 5).Draw(w.r, "of") {
	case 0:
		w.Exec(`UPDATE tenants SET payout_fee_by = CASE payout_fee_by WHEN 'tenant' THEN 'platform' ELSE 'tenant' END WHERE id = $1`, id)
	case 1:
		w.Exec(`UPDATE tenants SET payout_approvals = 1 - payout_approvals, approve_above = CASE payout_approvals WHEN 0 THEN 1000 END,
			approve_day_above = CASE payout_approvals WHEN 0 THEN 6000 END WHERE id = $1`, id)
	case 2:
		p := fee.Price{TenantID: id, On: rapid.SampledFrom([]fee.On{fee.OnPayment, fee.OnPayout}).Draw(w.r, "on"), Flat: money.Must("3.00"), Percent: money.MustRate(rapid.SampledFrom([]string{"0", "2", "99"}).Draw(w.r, "percent"))}
		if w.yes("for all") {
			p.TenantID = uuid.Nil
		}
		_, err := (&fee.Prices{Pool: w.Pool, Clock: w.Clock}).Set(w.ctx, p, returned)
		w.asked(err)
	case 3, 4:
		a := w.own("account")
		expected := money.Must("5000.00")
		_, err := w.accounts.Update(w.ctx, a.tenant, a.ref, account.Changes{ExpectedAmount: &expected, Policy: w.policy()}, byTenant)
		w.asked(err)
	case 5:
		a, to, other := w.own("account"), w.own("to"), w.own("other")
		shares := []account.NewShare{{AccountRef: to.ref, Percent: rapid.SampledFrom([]string{"33.3333", "100"}).Draw(w.r, "percent")}, {AccountRef: other.ref, Remainder: true}}
		_, err := w.accounts.Update(w.ctx, a.tenant, a.ref, account.Changes{Split: &shares}, byTenant)
		w.asked(err)
	}
}

func (w *walk) tier() {
	_, _, err := w.customers.SetTier(w.ctx, some[uuid.UUID](w, "customer", `SELECT id FROM customers ORDER BY id`), rapid.IntRange(1, 3).Draw(w.r, "tier"), returned)
	w.asked(err)
}

func (w *walk) decide() {
	ref := some[string](w, "transfer", `SELECT merchant_tx_ref FROM transfers WHERE status = 'pending' AND approvals_needed > 0 ORDER BY id`)
	of := testenv.Value[uuid.UUID](w.Env, `SELECT tenant_id FROM transfers WHERE merchant_tx_ref = $1`, ref)
	_, err := w.transfers.Decide(w.ctx, of, ref, transfer.Maker{Member: of}, rapid.SampledFrom([]transfer.Decision{transfer.Approve, transfer.Approve, transfer.Reject}).Draw(w.r, "decision"))
	w.asked(err)
}

func (w *walk) closes() {
	a := w.own("account")
	_, err := w.accounts.Expire(w.ctx, a.tenant, a.ref, account.Ending{Reason: "the shop is closed", By: returned}, idempotency.Request{})
	w.asked(err)
}

// opensAgain opens one more account, whose number was another's where one has closed.
func (w *walk) opensAgain() {
	w.count++
	w.bank.Faults.Add(fakebank.Rule{On: fakebank.OnAccounts, Do: fakebank.Reissue, Next: 1})
	nobody := w.places[len(w.places)-1]
	w.places = w.places[:len(w.places)-1]
	w.provisions(one(w, w.two, "tenant"), account.NewAccount{ExternalRef: fmt.Sprint("new-", w.count)})
	w.places = append(w.places, nobody)
}

// misdirected has an operator assign a misdirected payment or pay it back.
func (w *walk) misdirected() {
	id := some[uuid.UUID](w, "event", `SELECT id FROM inbound_events WHERE misdirected ORDER BY id`)
	if !w.yes("it goes back") {
		_, err := w.payments.Assign(w.ctx, id, payment.Destination{AccountID: w.own("to").id}, returned)
		w.asked(err)
		return
	}
	p, err := w.payments.PlanReturn(w.ctx, id)
	if err == nil {
		_, err = w.transfers.RefundSuspense(w.ctx, transfer.SuspenseRefund{
			EventID: id, Record: p.Record, Lock: func(ctx context.Context, tx pg.Tx) error { return payment.LockMisdirected(ctx, tx, id) },
		}, returned)
	}
	w.operated(err)
}

// operated is asked, where the bank may have given no answer either.
func (w *walk) operated(err error) {
	if errs.As(err) == nil {
		w.unheard(err)
	}
}

// review has an operator decide about a payment under review.
func (w *walk) review() {
	id := some[uuid.UUID](w, "event", `SELECT transaction_group_id FROM ledger_entries WHERE direction = 'credit' AND status = 'needs_review' AND kind = '' ORDER BY id`)
	var err error
	switch rapid.IntRange(0, 2).Draw(w.r, "decision") {
	case 0:
		_, err = w.payments.DecideReview(w.ctx, id, ledger.EventConfirm, returned)
	case 1:
		_, err = w.payments.DecideReview(w.ctx, id, ledger.EventReverse, returned)
	default:
		err = w.corrects(id)
	}
	w.operated(err)
}

// corrects counts a payment with what the bank's record has.
func (w *walk) corrects(event uuid.UUID) error {
	t, _ := w.bank.Transaction(testenv.Value[string](w.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, event))
	_, err := w.payments.Correct(w.ctx, event, payment.Correction{Amount: t.Amount, Fee: t.Fee}, returned)
	return err
}

// restore has an operator count a payment again that was reversed, or one that could not be posted.
func (w *walk) restore() {
	reversed := func() uuid.UUID {
		return some[uuid.UUID](w, "event", `SELECT transaction_group_id FROM ledger_entries WHERE direction = 'credit' AND status = 'reversed' AND kind = '' AND reversal_of IS NULL ORDER BY id`)
	}
	var err error
	switch rapid.IntRange(0, 2).Draw(w.r, "how") {
	case 0:
		_, err = w.payments.RestoreReversed(w.ctx, reversed(), returned)
	case 1:
		err = w.corrects(reversed())
	default:
		_, err = w.payments.Repost(w.ctx, some[uuid.UUID](w, "event", `SELECT id FROM inbound_events WHERE unposted AND NOT misdirected AND look_alike_of IS NULL ORDER BY id`), returned)
	}
	w.operated(err)
}

func (w *walk) recall() {
	id := some[uuid.UUID](w, "event", `SELECT id FROM inbound_events WHERE status = 'processed' ORDER BY id`)
	var err error
	switch rapid.IntRange(0, 2).Draw(w.r, "how") {
	case 0:
		err = w.payments.OpenRecallByHand(w.ctx, id, returned)
	case 1:
		_, err = w.payments.DecideRecall(w.ctx, id, payment.RecallReversed, returned)
	default:
		_, err = w.payments.DecideRecall(w.ctx, id, payment.RecallKept, returned)
	}
	w.asked(err)
}

func (w *walk) resolve() {
	ref := some[string](w, "transfer", `SELECT merchant_tx_ref FROM transfers ORDER BY id`)
	var err error
	switch rapid.IntRange(0, 5).Draw(w.r, "how") {
	case 0:
		_, err = w.transfers.Cancel(w.ctx, ref, returned)
	case 1:
		err = w.transfers.Poll(w.ctx, ref, returned)
	case 2:
		err = w.transfers.BookCharges(w.ctx, ref, transfer.Charges{Fee: money.Must("20.00"), VAT: money.Must("1.50")}, returned)
	case 3:
		_, err = w.transfers.Resolve(w.ctx, ref, transfer.Resolution{}, returned)
	case 4:
		_, err = w.transfers.Resolve(w.ctx, ref, transfer.Resolution{Paid: true}, returned)
	default:
		p, _ := w.bank.Payout(ref)
		if p.Back == nil {
			w.r.Skip("nothing came back")
		}
		_, err = w.transfers.Resolve(w.ctx, ref, transfer.Resolution{Paid: true, Amount: new(p.Amount.Sub(*p.Back))}, returned)
	}
	w.operated(err)
}

// adopt makes a payout that only the bank has, or takes one into the books.
func (w *walk) adopt() {
	if w.yes("it is made") {
		w.count++
		w.bank.Faults.Clear()                          // what comes back of one that was not seen before tells nobody of the rest
		_, _ = w.client.Pay(w.ctx, provider.NewPayout{ // what becomes of it is the bank's
			Ref: fmt.Sprint("OURS-", w.count), Amount: money.Must("50.00"), BankCode: "058", AccountNumber: "0123456789", AccountName: "BOLA OJO", SenderName: "Ajo", Narration: "Payout",
		})
		return
	}
	w.operated(w.transfers.Adopt(w.ctx, one(w, w.payouts(), "payout").Ref, w.own("from").id, returned))
}

func (w *walk) dismiss() {
	it, err := w.recon.OpenException(w.ctx, some[string](w, "item", `SELECT ref FROM reconcile_items ORDER BY id`))
	if err == nil {
		err = w.recon.Dismiss(w.ctx, it, returned)
	}
	w.asked(err)
}
