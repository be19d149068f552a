package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// spellings are ways in which a list may write an id.
var spellings = map[string]func(string) string{
	"in lower case":    strings.ToLower,
	"in upper case":    strings.ToUpper,
	"with a prefix":    func(id string) string { return "TRF-" + id },
	"without a prefix": func(id string) string { return strings.TrimPrefix(id, "API-") },
	"with a space":     func(id string) string { return id[:8] + " " + id[8:] },
	"as another":       func(string) string { return "000123456789" },
}

// sessionless takes the session ids of a payment away, from the bank's record and so from its
// event.
func (b *bundle) sessionless(t fakebank.Transaction) fakebank.Transaction {
	b.bank.SetTransaction(t.ID, func(x *fakebank.Transaction) { x.SessionID = "" })
	t.SessionID = ""
	return t
}

// A payment whose id the list spells otherwise than its event is posted once, whichever comes first
// and with a session id or without.
func TestOnePaymentUnderTwoSpellingsIsPostedOnce(t *testing.T) {
	t.Parallel()
	for name, spell := range spellings {
		for _, session := range []bool{true, false} {
			for _, listFirst := range []bool{true, false} {
				t.Run(name+map[bool]string{true: " session"}[session]+map[bool]string{true: " list first"}[listFirst], func(t *testing.T) {
					t.Parallel()
					b := setup(t)
					txn := b.paySilently("5000.00")
					if !session {
						txn = b.sessionless(txn)
					}
					listed := spell(txn.ID)
					b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.ListedAs = listed })
					arrive := func() { b.post(b.receive(b.hook(txn)).ID) }
					run := func() reconcile.Report {
						r := b.lastHour()
						b.postAll(r.ToPost)
						return r
					}
					held := listed
					if listFirst {
						require.Len(t, run().ToPost, 1)
						arrive()
						held = txn.ID
					} else {
						arrive()
					}
					for range 3 {
						r := run()
						require.Equal(t, 1, r.Counts[reconcile.LookAlike], "%v", said(r))
						require.Contains(t, said(r)[held], "look_alike: it looks like the payment ")
						require.NotContains(t, said(r)[held], "reversed", "the payment counts in the books")
						require.Positive(t, r.Suspicious())
						b.Clock.Advance(15 * time.Minute)
					}
					balance, entries := b.books()
					require.Equal(t, "4975.00", balance)
					require.Len(t, entries, 1)

					_, err := dismiss(b.svc, held)
					require.NoError(t, err)
					require.Zero(t, run().Counts[reconcile.LookAlike])
					balance, _ = b.books()
					require.Equal(t, "4975.00", balance)
				})
			}
		}
	}
}

// So is one that no account has: it would be in suspense twice, and go back twice.
func TestOneMisdirectedPaymentUnderTwoSpellings(t *testing.T) {
	t.Parallel()
	for name, listFirst := range map[string]bool{"event first": false, "list first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			stray := uuid.New()
			_, err := b.client().CreateAccount(b.ctx, provider.NewAccount{Ref: stray.String(), Name: "Nobody We Know"})
			require.NoError(t, err)
			txn := testenv.PaySilently(t, b.bank, stray, "5000.00")
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.ListedAs = strings.ToLower(txn.ID) })
			steps := []func(){
				func() { b.post(b.receive(b.hook(txn)).ID) },
				func() { b.postAll(b.lastHour().ToPost) },
			}
			if listFirst {
				slices.Reverse(steps)
			}
			for _, step := range steps {
				step()
				require.Equal(t, "4975.00", testenv.Value[money.Amount](b.Env, `SELECT balance FROM ledger_balances WHERE account_id = $1`, ledger.Suspense.ID()).String())
			}
			require.Equal(t, 1, b.lastHour().Counts[reconcile.LookAlike])
			b.recalls() // the invariants hold
		})
	}
}

// The bank says that the event's payment failed, and lists it later, under another spelling: the
// operator is told that the wallet has its money, and no balance.
func TestLookAlikeOfWhatIsReversed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	txn := b.paySilently("5000.00")
	id := b.receive(b.hook(txn)).ID
	b.post(id)
	b.recorded(txn, fakebank.StatusFailed)
	b.Clock.Advance(time.Minute)
	require.NoError(t, b.payments.Confirm(b.ctx, id))
	require.Equal(t, "reversed", b.credit(id))
	listed := strings.ToLower(txn.ID)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Status, x.ListedAs = fakebank.StatusSuccess, listed })
	for range 2 {
		f := b.float()
		require.Equal(t, "4975.00", effectOf(f, listed))
		require.Contains(t, said(b.lastHour())[listed], "and is reversed: ajo review restore counts that one; it is not posted")
	}
	_, err := b.payments.RestoreReversed(b.ctx, id, byHand)
	require.NoError(t, err)
	require.Empty(t, effectOf(b.float(), listed))
}

// What only a person may restore is open, and is listed under another spelling as well: the wallet
// has its money once.
func TestLookAlikeOfWhatIsReversedAndOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, txn := b.confirmed()
	b.recorded(txn, "REFUND")
	b.lastHour()
	b.confirm(id)
	require.Equal(t, "reversed", b.credit(id))
	b.recorded(txn, fakebank.StatusSuccess)
	require.Equal(t, "4975.00", effectOf(b.float(), txn.ID))
	listed := strings.ToLower(txn.ID)
	b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.ListedAs = listed })
	for range 2 {
		f := b.float()
		require.Equal(t, 1, b.lastHour().Counts[reconcile.LookAlike])
		require.Equal(t, []string{"4975.00", ""}, []string{effectOf(f, txn.ID), effectOf(f, listed)})
	}
}

// Two equal payments of the same second are two: the list has both, each under its own id.
func TestTwoEqualPaymentsOfOneSecondArePostedBoth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(b *bundle, x, y fakebank.Transaction){
		"one event came": func(b *bundle, x, _ fakebank.Transaction) { b.post(b.receive(b.hook(x)).ID) },
		"no event came":  func(*bundle, fakebank.Transaction, fakebank.Transaction) {},
		"one is listed late, after the other's event": func(b *bundle, x, y fakebank.Transaction) {
			b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
			b.postAll(b.lastHour().ToPost) // y, from the list
			b.post(b.receive(b.hook(x)).ID)
			balance, _ := b.books()
			require.Equal(b.T, "4975.00", balance, "held back until the list has both")
			require.Equal(b.T, 1, b.lastHour().Counts[reconcile.LookAlike])
			b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
			c(b, x, y)
			b.postAll(b.lastHour().ToPost)
			balance, entries := b.books()
			require.Equal(t, "9950.00", balance)
			require.Len(t, entries, 2)
			require.Empty(t, b.lastHour().Exceptions)
			require.True(t, b.receive(b.hook(y)).Duplicate)
		})
	}
}

// With session ids nothing has to be held back: they tell equal payments apart, also when one comes
// by event after the other by list.
func TestSessionIDsTellEqualPaymentsApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.paySilently("5000.00"), b.paySilently("5000.00")
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	b.postAll(b.lastHour().ToPost)
	require.Equal(t, payment.CategoryPayment, b.post(b.receive(b.hook(x)).ID).Category)
	balance, _ := b.books()
	require.Equal(t, "9950.00", balance)
	require.True(t, b.receive(b.hook(y)).Duplicate)
}

// A session id that the bank gives to several payments, as it may to all between its own accounts,
// makes them alike. Where its list has each of them, another sum or account tells them apart.
func TestOneSessionIDOfSeveralPayments(t *testing.T) {
	t.Parallel()
	for name, byEvent := range map[string]bool{"the list brings all": false, "an event brings one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			other := b.Account(b.tenant, "other")
			b.OpenAtBank(b.bank, other)
			same := func(txn fakebank.Transaction) fakebank.Transaction {
				b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.SessionID = strings.Repeat("0", 30) })
				txn.SessionID = strings.Repeat("0", 30)
				return txn
			}
			first := same(b.paySilently("5000.00"))
			same(b.paySilently("3000.00"))
			same(testenv.PaySilently(t, b.bank, other, "5000.00"))
			if byEvent {
				b.post(b.receive(b.hook(first)).ID)
			}
			b.postAll(b.lastHour().ToPost)
			require.Equal(t, "12940.00", testenv.Value[money.Amount](b.Env, `SELECT sum(balance) FROM ledger_balances`).String())
			require.Empty(t, b.lastHour().Exceptions)

			twin := same(b.paySilently("3000.00"))
			r := b.lastHour()
			require.Equal(t, 1, r.Counts[reconcile.LookAlike], "the same sum to the same account")
			require.Contains(t, said(r)[twin.ID], "look_alike")
			b.recalls() // the invariants hold
		})
	}
}

// The event of a payment comes after the list brought it under another spelling, and is held back.
// The bank takes the payment back under the spelling of its event: that is held which counts.
func TestBankTakesBackWhatWasHeldBack(t *testing.T) {
	t.Parallel()
	for name, byEvent := range map[string]bool{"its event says so": true, "its record alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			txn := b.paySilently("5000.00")
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.ListedAs = "TRF-" + txn.ID })
			r := b.lastHour()
			b.postAll(r.ToPost)
			counts := r.ToPost[0]
			b.post(b.receive(b.hook(txn)).ID)
			b.lastHour()
			_, err := dismiss(b.svc, txn.ID)
			require.NoError(t, err)
			b.Clock.Advance(time.Minute)
			b.confirm(counts)
			require.Equal(t, "confirmed", b.credit(counts))

			// weeks later: the list of that day is not read any more
			b.Clock.Advance(21 * 24 * time.Hour)
			b.recorded(txn, fakebank.StatusRefund)
			if byEvent {
				again := txn
				again.RequestID = uuid.NewString()
				require.Equal(t, counts, b.receive(b.eventOf(b.bank.Event(fakebank.PaymentReversal, again))).Recalled)
			} else {
				require.Equal(t, map[string]string{
					txn.ID: "status_contradicts: the bank says refunded, and the payment TRF-" + txn.ID + ", which it looks like, is confirmed",
				}, said(b.lastHour()))
			}
			require.Equal(t, [2]string{"4975.00", "0.00"}, b.recalls())
			b.confirm(counts)
			require.Equal(t, [2]string{"0.00", "4975.00"}, b.recalls())
			for range 3 {
				require.Empty(t, b.lastHour().Exceptions)
				b.Clock.Advance(2 * time.Hour)
			}
		})
	}
}

// What looked alike and is another payment is posted by an operator's word.
func TestRepostOfALookAlike(t *testing.T) {
	t.Parallel()
	b := setup(t)
	x, y := b.sessionless(b.paySilently("5000.00")), b.sessionless(b.paySilently("5000.00"))
	// the bank never lists it
	b.bank.SetTransaction(x.ID, func(t *fakebank.Transaction) { t.Hidden = true })
	b.post(b.receive(b.hook(x)).ID)
	r := b.lastHour()
	require.Contains(t, said(r)[y.ID], "ajo events repost")
	held := *r.Exceptions[0].EventID
	require.Equal(t, "failed processing_error", testenv.Value[string](b.Env, `SELECT status || ' ' || category FROM inbound_events WHERE id = $1`, held))
	plan, err := b.payments.PlanRepost(b.ctx, held)
	require.NoError(t, err)
	require.NotNil(t, plan.Event.LookAlikeOf)
	_, err = b.payments.Repost(b.ctx, held, byHand)
	require.NoError(t, err)
	balance, _ := b.books()
	require.Equal(t, "9950.00", balance)
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events WHERE look_alike_of IS NOT NULL`))
	require.NotContains(t, b.lastHour().Counts, reconcile.LookAlike)
	require.NotEqual(t, uuid.Nil, held)
}
