package payment_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/errs"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/retry"
	"ajo/internal/secret"
	"ajo/internal/spec"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// defaults are the settings' defaults.
var defaults = config.Defaults()

// bundle is one service with its bank and one account.
type bundle struct {
	*testenv.Env
	ctx     context.Context
	bank    *fakebank.Bank
	svc     *payment.Service
	log     *testenv.Log
	account uuid.UUID
	tenant  uuid.UUID
}

// setup has accounts of other tenants beside the test's own, an older and a newer one; see also
// [bundle.neighbours].
func setup(t testing.TB) *bundle { return setupAt(t, fakebank.Options{}) }

// setupAt is setup with a bank of its own.
func setupAt(t testing.TB, o fakebank.Options) *bundle {
	e := testenv.New(t)
	b := &bundle{Env: e, ctx: context.Background(), log: testenv.NewLog(t)}
	b.bank = e.Bank(o)
	b.svc = b.service(b.bank.URL())
	b.Account(e.Tenant(), "neighbour")
	b.tenant = e.Tenant()
	b.account = b.Account(b.tenant, "customer-1")
	b.Account(e.Tenant(), "neighbour")
	return b
}

func (b *bundle) service(bankURL string) *payment.Service { return b.serviceWith(b.clientOf(bankURL)) }

func (b *bundle) client() *nomba.Client { return b.clientOf(b.bank.URL()) }

func (b *bundle) clientOf(bankURL string) *nomba.Client {
	return testenv.BankClient(b.T, b.bank, b.Clock, func(o *nomba.Options) { o.URL = bankURL })
}

func (b *bundle) serviceWith(bank provider.Bank) *payment.Service {
	s := payment.New(payment.Options{
		Pool: b.Pool, Bank: bank, Box: testBox(b.T), Clock: b.Clock, Log: b.log.Logger(),
		WebhookSecret: secret.Redact(fakebank.DefaultWebhookSecret), ConfirmDelays: defaults.ConfirmDelays,
		ConfirmMisses: 3, ConfirmMinAge: 30 * time.Minute, ConfirmDeadline: 24 * time.Hour,
	})
	b.T.Cleanup(s.Close)
	return s
}

var testKeys = secret.NewKey("test")

func testBox(t testing.TB) *secret.Box {
	t.Helper()
	box, err := secret.ParseKeys(testKeys.Reveal())
	require.NoError(t, err)
	return box
}

// openAtBank makes the test's account known to the fake bank.
func (b *bundle) openAtBank() { b.OpenAtBank(b.bank, b.account) }

// event returns a signed payment event of the bank for the test's account.
func (b *bundle) event(change func(*fakebank.Event)) payment.InboundRequest {
	b.T.Helper()
	e := b.bank.Event(fakebank.PaymentSuccess, fakebank.Transaction{
		ID: "API-VACT_TRA-" + uuid.NewString(), RequestID: uuid.NewString(), Status: "SUCCESS", AccountRef: b.account.String(),
		Amount: money.Must("5000.00"), Fee: money.Must("25.00"), Currency: "NGN", SenderName: "Bola Ade", Narration: "rent", Time: b.Clock.Now(),
	})
	if change != nil {
		change(&e)
	}
	return b.eventOf(e)
}

// eventOf signs an event.
func (b *bundle) eventOf(e fakebank.Event) payment.InboundRequest {
	b.T.Helper()
	return b.sign(testenv.EventBody(b.T, e))
}

// paySilently makes a payment at the bank of which no event comes.
func (b *bundle) paySilently(amount string) fakebank.Transaction {
	b.T.Helper()
	return testenv.PaySilently(b.T, b.bank, b.account, amount)
}

func (b *bundle) sign(body []byte) payment.InboundRequest {
	b.T.Helper()
	signature, timestamp := testenv.Sign(b.T, b.bank, body)
	return payment.InboundRequest{Body: body, Signature: signature, Timestamp: timestamp}
}

func (b *bundle) receive(d payment.InboundRequest) payment.Receipt {
	b.T.Helper()
	r, err := b.svc.Receive(b.ctx, d)
	require.NoError(b.T, err)
	return r
}

func (b *bundle) post(id uuid.UUID) payment.Posted {
	b.T.Helper()
	p, err := b.svc.Post(b.ctx, id)
	require.NoError(b.T, err)
	return p
}

func (b *bundle) event1(id uuid.UUID) (status, category, problem string) {
	b.T.Helper()
	require.NoError(b.T, b.Pool.QueryRow(b.ctx, `SELECT status, category, error_message FROM inbound_events WHERE id = $1`, id).Scan(&status, &category, &problem))
	return status, category, problem
}

// books checks that balance, statement and entries agree, and returns the balance and the entries'
// statuses.
func (b *bundle) books() (balance string, statuses []string) {
	b.T.Helper()
	s, err := ledger.ReadStatement(b.ctx, b.Pool, b.account, ledger.Filter{}, page.Request{Limit: 1000})
	require.NoError(b.T, err)
	for _, l := range s.Lines {
		statuses = append(statuses, string(l.Entry.Direction)+" "+string(l.Entry.Status))
	}
	bal, err := ledger.ReadBalance(b.ctx, b.Pool, b.account)
	require.NoError(b.T, err)
	require.Equal(b.T, s.ClosingBalance.String(), bal.Balance.String())
	testenv.FindsNothing(b.T, b.Pool, ledger.Verify)
	return bal.Balance.String(), statuses
}

func TestPaymentIsPostedOnce(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.out.field.amount", "event.in.transaction.amount", "event.in.transaction.fee", "event.in.customer.sender",
		"event.in.order.queue", "event.in.category.payment", "state.entry.provisional", "state.entry.provisional.webhook")
	b := setup(t)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
	r := b.receive(b.event(nil))
	require.True(t, r.ToPost())
	p := b.post(r.ID)
	require.Equal(t, payment.CategoryPayment, p.Category)
	require.NotNil(t, b.DueAt(work.Deliver, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM deliveries`)))
	require.Equal(t, b.Clock.Now().Add(30*time.Second), p.ConfirmAt)
	require.Zero(t, b.post(r.ID), "posting again changes nothing")
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit provisional"}, entries)
	body := b.Delivered(`true`)[0].Body
	require.JSONEq(t, fmt.Sprintf(`{"eventType":"payment.received","transactionGroupId":%q,"accountRef":"customer-1","amount":"4975.00",
		"gross_amount":"5000.00","provider_fee":"25.00","currency":"NGN","senderName":"Bola Ade","narration":"rent","status":"provisional"}`, r.ID), body)
}

func TestNoURLQueuesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.post(b.receive(b.event(nil)).ID)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries`))
}

// A hundred copies of one event at once, received and posted side by side by two services, post
// once.
func TestHundredCopiesAtOncePostOnce(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.request-id", "event.in.order.idempotency")
	b := setup(t)
	other := b.service(b.bank.URL())
	d := b.event(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh, posted := 0, 0
	for i := range 100 {
		svc := []*payment.Service{b.svc, other}[i%2]
		wg.Go(func() {
			r, err := svc.Receive(b.ctx, d)
			if err != nil {
				t.Errorf("receive: %v", err)
				return
			}
			p, err := svc.Post(b.ctx, r.ID)
			if err != nil {
				t.Errorf("post: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if r.ToPost() {
				fresh++
			}
			if p.Category == payment.CategoryPayment {
				posted++
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, fresh)
	require.Equal(t, 1, posted)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
}

func TestManyPaymentsShareCommits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	for range 300 {
		d := b.event(nil)
		wg.Go(func() {
			r, err := b.svc.Receive(b.ctx, d)
			if err == nil {
				_, err = b.svc.Post(b.ctx, r.ID)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	balance, entries := b.books()
	require.Equal(t, "1492500.00", balance)
	require.Len(t, entries, 300)
	commits := testenv.Value[int](b.Env, `SELECT count(DISTINCT xmin::text) FROM ledger_entries`)
	require.Less(t, commits, 150, "300 payments took %d commits", commits)
}

func TestForgedEventsAreKeptApart(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.order.signature", "event.in.category.sig-invalid")
	b := setup(t)
	d := b.event(nil)
	forged := d
	forged.Signature = "AAAA" + d.Signature[4:]
	r := b.receive(forged)
	require.Equal(t, payment.CategorySigInvalid, r.Category)
	require.False(t, r.ToPost())
	status, category, problem := b.event1(r.ID)
	require.Equal(t, []string{"failed", "sig_invalid", "the signature does not hold"}, []string{status, category, problem})
	require.Zero(t, b.post(r.ID))

	real := b.receive(d)
	require.True(t, real.ToPost(), "a forged event with the same ids never blocks the real one")
	b.post(real.ID)
	balance, _ := b.books()
	require.Equal(t, "4975.00", balance)
	for range 3 {
		require.Equal(t, payment.CategorySigInvalid, b.receive(forged).Category)
	}
	require.Equal(t, 5, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
}

// A flood of forged events is answered like any other, but does not fill the table; old ones are
// removed.
func TestFloodOfForgedEvents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	testenv.AtOnce(8, func(int) {
		for range 400 {
			if _, err := b.svc.Receive(b.ctx, payment.InboundRequest{Body: []byte("{}")}); err != nil {
				t.Error(err)
			}
		}
	})
	kept := testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`)
	require.Equal(t, 1000, kept, "by the clock no time has passed")
	b.Clock.Advance(2 * time.Second)
	for range 200 {
		b.receive(payment.InboundRequest{Body: []byte("{}")})
	}
	kept = testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`)
	require.Equal(t, 1000+2*50, kept)
	real := b.receive(b.event(nil))
	b.Clock.Advance(31 * 24 * time.Hour)
	removed, err := b.svc.PurgeForged(b.ctx, 10_000)
	require.NoError(t, err)
	require.Equal(t, int64(kept), removed)
	status, _, _ := b.event1(real.ID)
	require.Equal(t, "received", status)
}

// However long somebody sends forged events, no more than a bound are kept; what is beyond is
// answered and counted like the others, and the purge makes room for the newest. Genuine events are
// not touched.
func TestForgedEventsAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.svc.KeepForged(40)
	count := func() int {
		return testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE category = 'sig_invalid'`)
	}
	send := func(n int) {
		for range n {
			require.Equal(t, payment.CategorySigInvalid, b.receive(payment.InboundRequest{Body: []byte("{}")}).Category)
			b.Clock.Advance(time.Second)
		}
	}
	genuine := b.receive(b.event(nil))
	send(100)
	require.Equal(t, 40, count())
	oldest := testenv.Value[time.Time](b.Env, `SELECT min(received_at) FROM inbound_events WHERE category = 'sig_invalid'`)
	removed, err := b.svc.PurgeForged(b.ctx, 5)
	require.NoError(t, err)
	require.EqualValues(t, 5, removed)
	require.NoError(t, b.Beside(func(tx pg.Tx) error { // another process removes these
		_, err := tx.Exec(b.ctx, `SELECT FROM inbound_events WHERE id IN (SELECT id FROM inbound_events WHERE forged ORDER BY received_at LIMIT 3) FOR UPDATE`)
		return err
	}, func() (err error) {
		removed, err = b.svc.PurgeForged(b.ctx, 4)
		return err
	}))
	require.EqualValues(t, 4, removed)
	removed, err = b.svc.PurgeForged(b.ctx, 100)
	require.NoError(t, err)
	require.EqualValues(t, 10, removed)
	require.Equal(t, 21, count(), "half of them, and the one after which those came")
	require.Equal(t, oldest.Add(19*time.Second), testenv.Value[time.Time](b.Env, `SELECT min(received_at) FROM inbound_events WHERE category = 'sig_invalid'`))
	removed, err = b.svc.PurgeForged(b.ctx, 100)
	require.NoError(t, err)
	require.Zero(t, removed)
	b.Clock.Advance(10 * time.Second)
	send(100)
	require.Equal(t, 40, count())
	require.True(t, genuine.ToPost())
	require.Equal(t, payment.CategoryPayment, b.post(genuine.ID).Category)
}

// A payment whose posting always fails, for a reason that is no fault of its data, does not take
// those along that are posted in the same batch.
func TestOnePostingThatFailsTakesNobodyAlong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	poison := b.Account(b.tenant, "poison")
	b.Exec(`ALTER TABLE ledger_balances DISABLE TRIGGER USER`)
	b.Exec(`DELETE FROM ledger_balances WHERE account_id = $1`, poison)
	var ids []uuid.UUID
	for i := range 10 {
		ids = append(ids, b.receive(b.event(func(e *fakebank.Event) {
			if i == 4 {
				e.Data.Transaction.AliasReference = poison.String()
			}
		})).ID)
	}
	for i, o := range b.svc.PostAll(b.ctx, ids) {
		if i == 4 {
			at, ok := retry.When(o.Err)
			require.True(t, ok, o.Err)
			require.Equal(t, b.Clock.Now().Add(5*time.Second), at)
			continue
		}
		require.NoError(t, o.Err)
		require.Equal(t, payment.CategoryPayment, o.Value.Category)
	}
}

func TestHugeForgedBodyIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.receive(payment.InboundRequest{Body: bytes.Repeat([]byte("x"), 200_000), Signature: "?", Timestamp: "?"})
	require.Len(t, b.EventBodies(`true`)[0], 4096)
}

// The same ids with another payload: whatever it is that differs of what is posted, it is reported,
// and only the first is posted. What only people read may differ.
func TestSameIDsWithAnotherPayloadAreReported(t *testing.T) {
	t.Parallel()
	type tx = fakebank.EventTransaction
	for name, c := range map[string]struct {
		change   func(*tx)
		conflict bool
	}{
		"amount":    {func(x *tx) { x.TransactionAmount = json.RawMessage("999999.0") }, true},
		"fee":       {func(x *tx) { x.Fee = json.RawMessage("0.0") }, true},
		"currency":  {func(x *tx) { x.Currency = "USD" }, true},
		"alias":     {func(x *tx) { x.AliasReference = uuid.NewString() }, true},
		"number":    {func(x *tx) { x.AliasNumber = "0000000001" }, true},
		"time":      {func(x *tx) { x.Time = "2026-03-02T08:59:59Z" }, true},
		"narration": {func(x *tx) { x.Narration = "another text" }, false},
		"form":      {func(x *tx) { x.TransactionAmount = json.RawMessage("5000.00") }, false},
		"nothing":   {func(*tx) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var ids fakebank.Event
			first := b.receive(b.event(func(e *fakebank.Event) { ids = *e }))
			r := b.receive(b.event(func(e *fakebank.Event) {
				e.RequestID, e.Data.Transaction.TransactionID = ids.RequestID, ids.Data.Transaction.TransactionID
				c.change(&e.Data.Transaction)
			}))
			require.True(t, r.Duplicate)
			require.Equal(t, first.ID, r.ID)
			require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM work`), "one is to be posted")
			if c.conflict {
				b.log.Has(t, "event_conflict")
			} else {
				b.log.HasNot(t, "event_conflict")
			}
			b.post(first.ID)
			balance, _ := b.books()
			require.Equal(t, "4975.00", balance)
		})
	}
}

// The bank's repeat may bear another request id: the transaction and its type tell.
func TestRepeatUnderAnotherRequestID(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.event-type", "event.in.category.non-payment")
	b := setup(t)
	var txn string
	first := b.receive(b.event(func(e *fakebank.Event) { txn = e.Data.Transaction.TransactionID }))
	again := b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.TransactionID = txn }))
	require.True(t, again.Duplicate)
	require.Equal(t, first.ID, again.ID)
	require.Equal(t, []uuid.UUID{first.ID}, testenv.Value[[]uuid.UUID](b.Env, `SELECT array_agg(event_id) FROM event_bodies`), "nor is its body kept")
	b.log.HasNot(t, "event_conflict")
	reversal := b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.TransactionID, e.EventType = txn, "payment_reversal" }))
	require.False(t, reversal.Duplicate)
	require.Equal(t, payment.CategoryNonPayment, reversal.Category)
	status, _, _ := b.event1(reversal.ID)
	require.Equal(t, "ignored", status)
}

// What is paid into a suspended tenant's account is posted: it is there when the tenant is let in
// again.
func TestSuspendedTenantsArePaid(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "state.other.tenant.under-way")
	b := setup(t)
	b.Exec(`UPDATE tenants SET status = 'suspended' WHERE id = $1`, b.tenant)
	r := b.receive(b.event(nil))
	b.post(r.ID)
	status, category, problem := b.event1(r.ID)
	require.Equal(t, "processed payment ", status+" "+category+" "+problem)
}

func TestWhatIsNotPosted(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.transaction.currency", "event.in.category.misdirected")
	b := setup(t)
	b.Account(b.tenant, "twice")
	b.Account(b.Tenant(), "twice")
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	cases := map[string]struct {
		change                    func(tx *fakebank.EventTransaction)
		status, category, problem string
	}{
		"no account":    {func(tx *fakebank.EventTransaction) { tx.AliasReference = uuid.NewString() }, "failed", "misdirected", "no account has this alias"},
		"ambiguous":     {func(tx *fakebank.EventTransaction) { tx.AliasReference, tx.AliasNumber = "twice", "" }, "failed", "misdirected", "alias is ambiguous"},
		"other money":   {func(tx *fakebank.EventTransaction) { tx.Currency = "USD" }, "failed", "processing_error", "the currency is not NGN"},
		"fee above":     {func(tx *fakebank.EventTransaction) { tx.Fee = raw("5000.01") }, "failed", "processing_error", "the amount is not above the fee"},
		"fee equal":     {func(tx *fakebank.EventTransaction) { tx.Fee = raw("5000") }, "failed", "processing_error", "the amount is not above the fee"},
		"negative":      {func(tx *fakebank.EventTransaction) { tx.TransactionAmount = raw("-5000") }, "failed", "processing_error", "data.transaction.transactionAmount is not an amount in naira: invalid amount"},
		"exponent":      {func(tx *fakebank.EventTransaction) { tx.TransactionAmount = raw("1e3") }, "failed", "processing_error", "data.transaction.transactionAmount is not an amount in naira: invalid amount"},
		"three places":  {func(tx *fakebank.EventTransaction) { tx.TransactionAmount = raw("1.005") }, "failed", "processing_error", "data.transaction.transactionAmount is not an amount in naira: invalid amount"},
		"huge":          {func(tx *fakebank.EventTransaction) { tx.TransactionAmount = raw("9999999999999999") }, "failed", "processing_error", "data.transaction.transactionAmount is not an amount in naira: invalid amount"},
		"text amount":   {func(tx *fakebank.EventTransaction) { tx.TransactionAmount = raw(`"5000"`) }, "failed", "processing_error", "data.transaction.transactionAmount is not a number"},
		"no fee":        {func(tx *fakebank.EventTransaction) { tx.Fee = raw("null") }, "failed", "processing_error", "data.transaction.fee is not a number"},
		"by number":     {func(tx *fakebank.EventTransaction) { tx.AliasReference = "unknown"; tx.AliasNumber = b.number() }, "processed", "payment", ""},
		"by reference":  {func(tx *fakebank.EventTransaction) { tx.AliasReference, tx.AliasNumber = "customer-1", "" }, "processed", "payment", ""},
		"trailing zero": {func(tx *fakebank.EventTransaction) { tx.TransactionAmount = raw("5000.000") }, "processed", "payment", ""},
	}
	want := 0
	for name, c := range cases {
		r := b.receive(b.event(func(e *fakebank.Event) { c.change(&e.Data.Transaction) }))
		require.True(t, r.ToPost(), name)
		b.post(r.ID)
		status, category, problem := b.event1(r.ID)
		require.Equal(t, []string{c.status, c.category, c.problem}, []string{status, category, problem}, name)
		if c.category == "payment" {
			want++
		}
	}
	_, entries := b.books()
	require.Len(t, entries, want)
	list, _, err := b.svc.Misdirected(b.ctx, page.Request{Limit: 20})
	require.NoError(t, err)
	require.Len(t, list, 2)
}

func (b *bundle) number() string {
	return testenv.Value[string](b.Env, `SELECT bank_account_number FROM accounts WHERE id = $1`, b.account)
}

func TestOneTimeAccount(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.transaction.amount.expected", "state.account.paid", "state.account.paid.immediately",
		"endpoint.provision.expected-amount.exact", "state.account.expired.payments")
	b := setup(t)
	b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = 5000 WHERE id = $1`, b.account)
	at, expired := b.Clock.Now(), false
	pay := func(amount string, when time.Time) string {
		r := b.receive(b.event(func(e *fakebank.Event) {
			e.Data.Transaction.TransactionAmount = json.RawMessage(amount)
			e.Data.Transaction.Time = when.Format(time.RFC3339)
		}))
		p := b.post(r.ID)
		if p.Category == payment.CategoryPayment && !expired {
			expired = amount == "5000.00" && when.Equal(at)
		}
		require.Equal(t, expired, b.DueAt(work.Expire, b.account) != nil, "%s at %s", amount, when)
		_, category, problem := b.event1(r.ID)
		return category + " " + problem
	}
	require.Equal(t, "payment ", pay("4999.99", at.Add(-time.Minute)))
	require.Equal(t, "payment ", pay("5000.00", at))
	require.Equal(t, "misdirected account is expired", pay("5000.00", at.Add(time.Second)))
	require.Equal(t, "payment ", pay("100.00", at.Add(-time.Second)), "made before the expiry, received after it")
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM account_history WHERE to_status = 'expired'`))
	b.books()
}

func TestDeadlineHoldsBeforeTheTaskRuns(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "endpoint.provision.expires-at.after")
	b := setup(t)
	b.Exec(`UPDATE accounts SET type = 'onetime', expires_at = $2 WHERE id = $1`, b.account, b.Clock.Now().Add(time.Minute))
	late := b.receive(b.event(func(e *fakebank.Event) {
		e.Data.Transaction.Time = b.Clock.Now().Add(61 * time.Second).Format(time.RFC3339)
	}))
	b.post(late.ID)
	_, category, problem := b.event1(late.ID)
	require.Equal(t, "misdirected account is expired", category+" "+problem)
}

func TestNotStoredIsSaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	d := b.event(nil)
	b.Pool.Close()
	_, err := b.svc.Receive(b.ctx, d)
	require.ErrorIs(t, err, payment.ErrNotStored)
	require.Equal(t, errs.Unavailable, errs.KindOf(err))
}

// An item that stands though its event is posted, as after a restore of single rows, posts nothing
// and goes; the event beside it is posted.
func TestItemOfAPostedEvent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	posted, next := b.receive(b.event(nil)).ID, b.receive(b.event(nil)).ID
	require.Equal(t, payment.CategoryPayment, b.post(posted).Category)
	b.Schedule(work.Ingest, posted, b.Clock.Now())
	b.Touches(func() { require.Empty(t, b.post(posted).Category) }, "work (ingest,"+posted.String())
	require.Nil(t, b.DueAt(work.Ingest, posted))
	b.Schedule(work.Ingest, posted, b.Clock.Now())
	for _, o := range b.svc.PostAll(b.ctx, []uuid.UUID{posted, next}) {
		require.NoError(t, o.Err)
	}
	balance, statuses := b.books()
	require.Equal(t, "9950.00", balance)
	require.Len(t, statuses, 2)
}

func TestPostingWithoutDatabaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.order.transaction")
	b := setup(t)
	r := b.receive(b.event(nil))
	b.Exec(`ALTER TABLE ledger_entries RENAME TO away`)
	_, err := b.svc.Post(b.ctx, r.ID)
	at, ok := retry.When(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, b.Clock.Now().Add(5*time.Second), at)
	status, _, _ := b.event1(r.ID)
	require.Equal(t, "received", status)
	b.Exec(`ALTER TABLE away RENAME TO ledger_entries`)
	b.Clock.Advance(5 * time.Second)
	require.Equal(t, payment.CategoryPayment, b.post(r.ID).Category)
	b.books()
}

// An event that the schema refuses is set aside, and its neighbours in the batch are posted.
func TestOneBadRowDoesNotFailItsNeighbours(t *testing.T) {
	t.Parallel()
	spec.Shows(t, "event.in.category.processing-error", "event.in.order.transaction")
	b := setup(t)
	b.Exec(`ALTER TABLE ledger_entries ADD CHECK (narration <> 'poison')`)
	var ids []uuid.UUID
	for i := range 20 {
		ids = append(ids, b.receive(b.event(func(e *fakebank.Event) {
			if i == 7 {
				e.Data.Transaction.Narration = "poison"
			}
		})).ID)
	}
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			if _, err := b.svc.Post(b.ctx, id); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	status, category, problem := b.event1(ids[7])
	require.Equal(t, "failed processing_error", status+" "+category)
	require.True(t, strings.HasPrefix(problem, "the ledger write failed: "), problem)
	_, entries := b.books()
	require.Len(t, entries, 19)
}

func TestEventTableMatchesSchema(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, from := range payment.Transitions.States() {
		for _, to := range payment.Transitions.States() {
			if from == to {
				continue
			}
			id := uuid.Must(uuid.NewV7())
			b.Exec(`INSERT INTO inbound_events (id, source, signature_valid, authentic, request_id, provider_txn_ref, event_type, status, category,
					amount, account_id, digest, received_at, processed_at)
				VALUES ($1, 'webhook', true, true, $1::uuid::text, $1::uuid::text, 'x', $2, CASE $2 WHEN 'processed' THEN 'payment' ELSE '' END, 1, $3, sha256(''), now(), now())`,
				id, from, b.account)
			_, err := b.Pool.Exec(b.ctx, `UPDATE inbound_events SET status = $2, category = CASE $2 WHEN 'processed' THEN 'payment' ELSE '' END WHERE id = $1`, id, to)
			allowed := false
			for _, m := range payment.Transitions.Moves() {
				allowed = allowed || m == [2]string{string(from), string(to)}
			}
			require.Equal(t, allowed, err == nil, "%s>%s: %v", from, to, err)
		}
	}
	_, err := b.Pool.Exec(b.ctx, `DELETE FROM inbound_events`)
	require.Error(t, err, "authentic events are kept")
}
