package payment_test

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/provider/nomba"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// misdirected makes a payment at the bank to a number that no account of ours has, and posts its
// event, which change may alter beside what the signature covers.
func (b *bundle) misdirected(change func(*fakebank.EventTransaction)) uuid.UUID {
	b.T.Helper()
	client, err := nomba.New(nomba.Options{
		URL: b.bank.URL(), AccountID: fakebank.DefaultAccountID, ClientID: fakebank.DefaultClientID, ClientSecret: fakebank.DefaultClientSecret,
		Clock: b.Clock, RequestsPerSec: -1, PostsPerSec: -1,
	})
	require.NoError(b.T, err)
	stray := uuid.NewString()
	_, err = client.CreateAccount(b.ctx, provider.NewAccount{Ref: stray, Name: "Nobody We Know"})
	require.NoError(b.T, err)
	return b.paidTo(stray, change, "misdirected")
}

// paidTo makes a payment at the bank to the account of that reference, and posts its event, altered
// by change.
func (b *bundle) paidTo(ref string, change func(*fakebank.EventTransaction), category payment.Category) uuid.UUID {
	b.T.Helper()
	txn, err := b.bank.Pay(b.ctx, fakebank.Payment{AccountRef: ref, Amount: money.Must("5000.00"), SenderName: "Bola Ade", Silent: true, Force: true})
	require.NoError(b.T, err)
	e := b.bank.Event(fakebank.PaymentSuccess, txn)
	if change != nil {
		change(&e.Data.Transaction)
	}
	body, err := json.Marshal(e)
	require.NoError(b.T, err)
	r := b.receive(b.sign(body))
	require.Equal(b.T, category, b.post(r.ID).Category)
	return r.ID
}

func (b *bundle) here() payment.Destination { return payment.Destination{AccountID: b.account} }

// suspense is the balance of the suspense account and that of all tenants; with the wallet they sum
// to zero.
func (b *bundle) suspense() (suspense, tenants string) {
	b.T.Helper()
	t, err := ledger.ReadTrialBalance(b.ctx, b.Pool, b.Clock.Now().In(clock.Lagos).Format(time.DateOnly))
	require.NoError(b.T, err)
	require.Equal(b.T, "0.00", t.Total.String())
	sums := map[string]string{}
	for _, l := range t.Accounts {
		sums[l.Account] = l.Credit.Sub(l.Debit).String()
	}
	return sums["suspense"], sums["tenants"]
}

// What is misdirected is in suspense from its posting until it is assigned, whatever comes after.
func TestMisdirectedMoneyIsInSuspense(t *testing.T) {
	t.Parallel()
	b := setup(t)
	is := func(suspense, tenants string) {
		b.T.Helper()
		s, ours := b.suspense()
		require.Equal(b.T, []string{suspense, tenants}, []string{s, ours})
	}
	is("0.00", "0.00")
	first, second := b.misdirected(nil), b.misdirected(nil)
	is("9950.00", "0.00")
	b.post(first) // again: it is decided
	is("9950.00", "0.00")
	_, err := b.svc.Assign(b.ctx, first, b.here(), byHand)
	require.NoError(t, err)
	is("4975.00", "4975.00")
	_, err = b.svc.Assign(b.ctx, first, b.here(), byHand)
	require.ErrorIs(t, err, payment.ErrNotMisdirected)
	is("4975.00", "4975.00")
	_, err = b.svc.Assign(b.ctx, second, payment.Destination{AccountID: uuid.New()}, byHand)
	require.ErrorIs(t, err, account.ErrNotFound)
	is("4975.00", "4975.00")
	// from then on it is a payment like any, that the bank may deny
	b.MoveCredit(first, ledger.EventReverse)
	is("4975.00", "0.00")
	testenv.FindsNothing(t, b.Pool, ledger.Verify)
}

func TestAssignPostsLikePosting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(`UPDATE tenants SET webhook_url = 'https://tenant.example/hook' WHERE id = $1`, b.tenant)
	id := b.misdirected(nil)
	plan, err := b.svc.PlanAssign(b.ctx, id, payment.Destination{TenantID: b.tenant, AccountRef: "customer-1"})
	require.NoError(t, err)
	require.Equal(t, []any{id, b.account, "customer-1", b.number(), account.Active, account.Dedicated, b.tenant, "Test tenant"},
		[]any{plan.Event.ID, plan.AccountID, plan.AccountRef, plan.AccountNumber, plan.AccountStatus, plan.AccountType, plan.TenantID, plan.TenantName})
	_, entries := b.books()
	require.Empty(t, entries, "a plan changes nothing")

	p, err := b.svc.Assign(b.ctx, id, payment.Destination{TenantID: b.tenant, AccountRef: "customer-1"}, byHand)
	require.NoError(t, err)
	require.Equal(t, payment.CategoryPayment, p.Category)
	require.Equal(t, b.Clock.Now().Add(30*time.Second), p.ConfirmAt)
	require.NotNil(t, b.DueAt(work.Deliver, testenv.Value[uuid.UUID](b.Env, `SELECT id FROM deliveries WHERE transaction_group_id = $1`, id)))
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit provisional"}, entries)

	e, err := b.svc.InboundEvent(b.ctx, id)
	require.NoError(t, err)
	require.Equal(t, []any{payment.Processed, payment.CategoryPayment, "no account has this alias", b.account, b.tenant},
		[]any{e.Status, e.Category, e.ErrorMessage, *e.AccountID, *e.TenantID})
	list, _, err := b.svc.Misdirected(b.ctx, page.Request{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list, "it is misdirected no more")

	log := b.audited()
	require.Len(t, log, 1)
	require.Equal(t, []string{"cli:ada", "events.assign", "event:" + id.String(), "asked the bank"}, []string{log[0].Actor, log[0].Action, log[0].Target, log[0].Reason})
	var detail struct {
		AccountID                                                        uuid.UUID
		AccountRef, Amount, Fee, ProviderTxnRef, Alias, AliasNumber, Why string
	}
	require.NoError(t, json.Unmarshal(log[0].Detail, &detail))
	require.Equal(t, b.account, detail.AccountID)
	require.Equal(t, []string{"customer-1", "5000.00", "25.00", e.ProviderTxnRef, e.Alias, e.AliasNumber, "no account has this alias"},
		[]string{detail.AccountRef, detail.Amount, detail.Fee, detail.ProviderTxnRef, detail.Alias, detail.AliasNumber, detail.Why})
	require.Len(t, e.AliasNumber, 10)
}

// The bank's record of an assigned payment is of another number than the account's: it is compared
// with what the event says was paid. What does not agree with that either waits for a person.
func TestAssignedPaymentIsConfirmedByWhatTheEventNames(t *testing.T) {
	t.Parallel()
	const held, good = "credit needs_review", "credit confirmed"
	for name, c := range map[string]struct {
		change func(*fakebank.EventTransaction)
		want   string
		why    string
	}{
		"number and reference":         {nil, good, ""},
		"number alone":                 {func(x *fakebank.EventTransaction) { x.AliasReference = "" }, good, ""},
		"number, another reference":    {func(x *fakebank.EventTransaction) { x.AliasReference = "shop-9" }, good, ""},
		"reference alone":              {func(x *fakebank.EventTransaction) { x.AliasNumber = "" }, good, ""},
		"another number":               {func(x *fakebank.EventTransaction) { x.AliasNumber = "0000000001" }, held, "account number is %, not 0000000001"},
		"another reference, no number": {func(x *fakebank.EventTransaction) { x.AliasReference, x.AliasNumber = "shop-9", "" }, held, "account number is %, not known from the event"},
		"names nothing":                {func(x *fakebank.EventTransaction) { x.AliasReference, x.AliasNumber = "", "" }, held, "account number is %, not known from the event"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.misdirected(c.change)
			e, err := b.svc.InboundEvent(b.ctx, id)
			require.NoError(t, err)
			// a record without a reference does not agree with an event that has none either
			if e.Alias == "" {
				b.bank.SetTransaction(e.ProviderTxnRef, func(x *fakebank.Transaction) { x.AccountRef = "" })
			}
			_, err = b.svc.Assign(b.ctx, id, b.here(), byHand)
			require.NoError(t, err)
			require.Equal(t, time.Duration(-1), b.check(id))
			_, entries := b.books()
			require.Equal(t, []string{c.want}, entries)
			if c.why != "" {
				require.True(t, testenv.Value[bool](b.Env, `SELECT last_error LIKE $2 FROM inbound_events WHERE id = $1`, id, "the bank's record differs: "+c.why))
				_, err = b.svc.DecideReview(b.ctx, id, ledger.EventConfirm, byHand)
				require.NoError(t, err)
				balance, _ := b.books()
				require.Equal(t, "4975.00", balance)
			}
		})
	}
}

// The other fields are compared as ever.
func TestAssignedPaymentOfAnotherAmountIsHeld(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.misdirected(func(x *fakebank.EventTransaction) { x.TransactionAmount = json.RawMessage("500000.00") })
	_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), b.check(id))
	balance, entries := b.books()
	require.Equal(t, "0.00", balance)
	require.Equal(t, []string{"credit needs_review"}, entries)
}

// What posting matched by itself is held to the account's own number, whatever number the event
// names: the signature covers neither, so a changed reference beside the true number would steal
// the payment.
func TestUnassignedPaymentIsHeldToItsAccountsNumber(t *testing.T) {
	t.Parallel()
	b := setup(t)
	victim := b.account
	b.openAtBank()
	thief := b.Account(b.tenant, "thief")
	id := b.paidTo(victim.String(), func(x *fakebank.EventTransaction) { x.AliasReference = "urn:uuid:" + thief.String() }, payment.CategoryPayment)
	require.Equal(t, thief, testenv.Value[uuid.UUID](b.Env, `SELECT account_id FROM inbound_events WHERE id = $1`, id))
	require.Empty(t, testenv.Value[string](b.Env, `SELECT error_message FROM inbound_events WHERE id = $1`, id))
	require.Equal(t, time.Duration(-1), b.check(id))
	require.Equal(t, "needs_review", testenv.Value[string](b.Env, `SELECT status FROM ledger_entries WHERE account_id = $1`, thief))
	b.books()
}

// A payment that came too late can be assigned to the expired account that was paid, even where the
// event names it by the tenant's reference only: the bank's record has the account's own number.
func TestAssignToTheExpiredAccountThatWasPaid(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.openAtBank()
	b.Clock.Advance(time.Hour)
	b.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2 WHERE id = $1`, b.account, b.Clock.Now().Add(-time.Minute))
	id := b.paidTo(b.account.String(), func(x *fakebank.EventTransaction) { x.AliasReference, x.AliasNumber = "customer-1", "" }, payment.CategoryMisdirected)
	_, err := b.svc.Assign(b.ctx, id, payment.Destination{TenantID: b.tenant, AccountRef: b.account.String()}, byHand)
	require.NoError(t, err)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM deliveries`), "there is no URL")
	require.Equal(t, time.Duration(-1), b.check(id))
	balance, entries := b.books()
	require.Equal(t, "4975.00", balance)
	require.Equal(t, []string{"credit confirmed"}, entries)
}

// The exact amount ends a one-time account, from now on: what was paid to its own number until now
// is still accepted.
func TestAssignEndsAOneTimeAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.misdirected(nil)
	b.Clock.Advance(time.Hour)
	b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = 5000 WHERE id = $1`, b.account)
	_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.NoError(t, err)
	require.NotNil(t, b.DueAt(work.Expire, b.account), "it is to be closed at the bank")
	require.Equal(t, b.Clock.Now(), testenv.Value[time.Time](b.Env, `SELECT expired_at FROM accounts WHERE id = $1`, b.account))
	late := b.receive(b.event(func(e *fakebank.Event) {
		e.Data.Transaction.Time = b.Clock.Now().Add(-time.Minute).Format(time.RFC3339)
	}))
	require.Equal(t, payment.CategoryPayment, b.post(late.ID).Category)
	b.books()
}

// So does its true sum, where the event had another one and an operator corrects it.
func TestCorrectionOfAnAssignedPaymentEndsAOneTimeAccount(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.misdirected(func(x *fakebank.EventTransaction) { x.TransactionAmount = json.RawMessage("500000.00") })
	b.Exec(`UPDATE accounts SET type = 'onetime', expected_amount = 5000 WHERE id = $1`, b.account)
	_, err := b.svc.Assign(b.ctx, id, b.here(), byHand)
	require.NoError(t, err)
	require.Equal(t, time.Duration(-1), b.check(id))
	b.Clock.Advance(time.Hour)
	_, err = b.svc.Correct(b.ctx, id, sums("5000.00", "25.00"), byHand)
	require.NoError(t, err)
	require.Equal(t, b.Clock.Now(), testenv.Value[time.Time](b.Env, `SELECT expired_at FROM accounts WHERE id = $1`, b.account).UTC())
	late := b.receive(b.event(func(e *fakebank.Event) {
		e.Data.Transaction.Time = b.Clock.Now().Add(-time.Minute).Format(time.RFC3339)
	}))
	require.Equal(t, payment.CategoryPayment, b.post(late.ID).Category)
	b.books()
}

func TestWhatIsNotAssigned(t *testing.T) {
	t.Parallel()
	b := setup(t)
	posted, _ := b.paid()
	received := b.receive(b.event(nil)).ID
	forgery := b.event(nil)
	forgery.Signature = "AAAA" + forgery.Signature[4:]
	forged := b.receive(forgery).ID
	ignored := b.receive(b.event(func(e *fakebank.Event) { e.EventType = "payment_reversal" })).ID
	broken := b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.Currency = "USD" })).ID
	require.Equal(t, payment.CategoryProcessingError, b.post(broken).Category)
	stray := b.misdirected(nil)
	provisioning := b.Account(b.tenant, "being-opened")
	b.Exec(`ALTER TABLE accounts DISABLE TRIGGER accounts_status`)
	b.Exec(`UPDATE accounts SET status = 'provisioning', bank_account_number = NULL WHERE id = $1`, provisioning)
	b.Exec(`ALTER TABLE accounts ENABLE TRIGGER accounts_status`)
	other := b.Tenant()
	// a reference that looks like the id is not taken for it
	b.Account(other, provisioning.String())
	balance, entries := b.books()
	for name, c := range map[string]struct {
		event uuid.UUID
		to    payment.Destination
		want  error
	}{
		"posted":                   {posted, b.here(), payment.ErrNotMisdirected},
		"waits to be posted":       {received, b.here(), payment.ErrNotMisdirected},
		"forged":                   {forged, b.here(), payment.ErrNotMisdirected},
		"no payment":               {ignored, b.here(), payment.ErrNotMisdirected},
		"unpostable":               {broken, b.here(), payment.ErrNotMisdirected},
		"unknown event":            {uuid.New(), b.here(), payment.ErrEventNotFound},
		"unknown account":          {stray, payment.Destination{AccountID: uuid.New()}, account.ErrNotFound},
		"no account":               {stray, payment.Destination{}, account.ErrNotFound},
		"unknown reference":        {stray, payment.Destination{TenantID: b.tenant, AccountRef: "nobody"}, account.ErrNotFound},
		"another tenant's":         {stray, payment.Destination{TenantID: other, AccountRef: "customer-1"}, account.ErrNotFound},
		"another tenant's, by id":  {stray, payment.Destination{TenantID: other, AccountRef: b.account.String()}, account.ErrNotFound},
		"provisioning":             {stray, payment.Destination{AccountID: provisioning}, account.ErrNotFound},
		"provisioning, by its ref": {stray, payment.Destination{TenantID: b.tenant, AccountRef: "being-opened"}, account.ErrNotFound},
	} {
		_, err := b.svc.Assign(b.ctx, c.event, c.to, byHand)
		require.ErrorIs(t, err, c.want, name)
		_, err = b.svc.PlanAssign(b.ctx, c.event, c.to)
		require.ErrorIs(t, err, c.want, name)
	}
	for _, by := range []audit.By{{}, {Actor: "cli:ada"}, {Reason: "because"}} {
		_, err := b.svc.Assign(b.ctx, stray, b.here(), by)
		require.Error(t, err)
	}
	status, category, problem := b.event1(stray)
	require.Equal(t, []string{"failed", "misdirected", "no account has this alias"}, []string{status, category, problem})
	again, entriesAgain := b.books()
	require.Equal(t, balance, again)
	require.Equal(t, entries, entriesAgain)
	require.Empty(t, b.audited())
}

// Two operators assign one payment to two accounts at once: one of them does, and the payment is
// posted once.
func TestOperatorsAtOnceAssignOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	second := b.Account(b.tenant, "customer-2")
	other := b.service(b.bank.URL())
	for range 5 {
		id := b.misdirected(nil)
		var wg sync.WaitGroup
		var assigned atomic.Int32
		for i := range 8 {
			svc, to := b.svc, b.account
			if i%2 == 1 {
				svc, to = other, second
			}
			wg.Go(func() {
				switch _, err := svc.Assign(b.ctx, id, payment.Destination{AccountID: to}, byHand); {
				case err == nil:
					assigned.Add(1)
				case !errors.Is(err, payment.ErrNotMisdirected):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, int32(1), assigned.Load())
		require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM ledger_entries WHERE transaction_group_id = $1`, id))
	}
	require.Len(t, b.audited(), 5)
	b.books()
}

func TestEventsAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	posted, txn := b.paid()
	received := b.receive(b.event(nil)).ID
	stray := b.misdirected(nil)
	forged := b.receive(payment.InboundRequest{Body: []byte("{}"), Signature: "?", Timestamp: "?"}).ID
	ids := func(f payment.EventFilter, limit int) (out []uuid.UUID) {
		r := page.Request{Limit: limit}
		for {
			list, info, err := b.svc.Events(b.ctx, f, r)
			require.NoError(t, err)
			for _, e := range list {
				out = append(out, e.ID)
			}
			if info.NextCursor == nil {
				return out
			}
			r.After = *info.NextCursor
		}
	}
	event := func(id uuid.UUID) payment.InboundEvent {
		e, err := b.svc.InboundEvent(b.ctx, id)
		require.NoError(t, err)
		return e
	}
	number := func(id uuid.UUID) string { return event(id).AliasNumber }
	require.Equal(t, []uuid.UUID{forged, stray, received, posted}, ids(payment.EventFilter{}, 10))
	require.Equal(t, []uuid.UUID{forged, stray, received, posted}, ids(payment.EventFilter{}, 1))
	require.Equal(t, []uuid.UUID{stray}, ids(payment.EventFilter{Category: payment.CategoryMisdirected}, 10))
	require.Equal(t, []uuid.UUID{forged, stray}, ids(payment.EventFilter{Status: payment.Failed}, 1))
	require.Equal(t, []uuid.UUID{posted}, ids(payment.EventFilter{ProviderTxnRef: txn.ID}, 10))
	require.Empty(t, ids(payment.EventFilter{Category: payment.CategoryMisdirected, Status: payment.Processed}, 10))
	require.Equal(t, []uuid.UUID{stray}, ids(payment.EventFilter{Status: payment.Failed, Number: number(stray)}, 10), "the number that the event has")
	require.Equal(t, []uuid.UUID{posted}, ids(payment.EventFilter{Number: b.number()}, 10), "the number of the account that has it")
	require.Empty(t, ids(payment.EventFilter{Number: "0000000001"}, 10))
	b.Clock.Advance(time.Minute)
	other := b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.TransactionAmount = json.RawMessage("700.00") })).ID
	require.Equal(t, []uuid.UUID{other}, ids(payment.EventFilter{Amount: new(money.Must("700.00"))}, 10))
	require.Equal(t, []uuid.UUID{stray, received, posted}, ids(payment.EventFilter{Amount: new(money.Must("5000.00"))}, 10))
	at := *event(other).OccurredAt
	require.Equal(t, []uuid.UUID{other}, ids(payment.EventFilter{From: at}, 10))
	require.Equal(t, []uuid.UUID{stray, received, posted}, ids(payment.EventFilter{To: at}, 10))
	for _, f := range []payment.EventFilter{{Category: "x"}, {Status: "misdirected"}} {
		_, _, err := b.svc.Events(b.ctx, f, page.Request{Limit: 1})
		require.ErrorIs(t, err, payment.ErrFilter)
	}
	_, _, err := b.svc.Events(b.ctx, payment.EventFilter{}, page.Request{Limit: 1, After: "x"})
	require.ErrorIs(t, err, page.ErrCursor)
}
