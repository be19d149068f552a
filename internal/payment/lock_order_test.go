package payment_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/payment"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// Each case is a transaction that locks first before later, as docs/architecture.md says. Before
// they did, each could wait for another in a circle.
func TestLockOrderOfPayments(t *testing.T) {
	type locks struct {
		first, later func(pg.Tx) error
		call         func() error
	}
	for name, prepare := range map[string]func(b *splits) locks{
		"posting: suspense, then the feed": func(b *splits) locks {
			b.misdirected(nil) // and the account suspense has its balance
			b.Exec(`UPDATE tenants SET listening_until = $2 WHERE id = $1`, b.tenant, b.Clock.Now().Add(time.Hour))
			good, stray := b.receive(b.event(nil)).ID, b.receive(b.event(func(e *fakebank.Event) { e.Data.Transaction.AliasReference = uuid.NewString() })).ID
			return locks{
				testenv.LocksBalance(ledger.Suspense.ID()), testenv.LocksFeed(b.tenant),
				func() error { return b.svc.PostTogether(b.ctx, good, stray) },
			}
		},
		"confirmations: the balances of all, recalled or not, by their ids": func(b *splits) locks {
			b.share() // with nobody
			recalled, txn := b.pays("1000.00")
			b.toTheEnd(recalled, 5)
			b.receive(b.reversal(txn)) // and the bank's record says success
			require.Positive(b.T, b.check(recalled))
			_, posted := b.platformPays()
			b.Clock.Set(*b.DueAt(work.Confirm, recalled))
			if at := *b.DueAt(work.Confirm, posted); at.After(b.Clock.Now()) {
				b.Clock.Set(at)
			}
			return locks{
				testenv.LocksBalance(b.account), testenv.LocksBalance(b.platform),
				func() error { return b.svc.ConfirmTogether(b.ctx, recalled, posted) },
			}
		},
		"correction: the parties of the account with it": func(b *splits) locks {
			txn, id := b.platformPays()
			b.bank.SetTransaction(txn.ID, func(x *fakebank.Transaction) { x.Fee = x.Amount })
			require.Equal(b.T, time.Duration(-1), b.check(id))
			shares := []account.NewShare{{AccountRef: "customer-1", Percent: "25"}}
			_, err := b.accounts.Update(b.ctx, b.tenant, "platform", account.Changes{Split: &shares}, byHand)
			require.NoError(b.T, err)
			return locks{
				testenv.LocksBalance(b.account), testenv.LocksBalance(b.platform),
				func() error {
					_, err := b.svc.Correct(b.ctx, id, sums("1000.00", "10.00"), byHand)
					return err
				},
			}
		},
		"reversals in one batch: all payments, then the balances": func(b *splits) locks {
			first, one := b.pays("1000.00")
			second, two := b.pays("2000.00")
			last := second
			if two.ID < one.ID {
				last = first
			}
			reversal := func(txn fakebank.Transaction) payment.InboundRequest {
				e := b.bank.Event(fakebank.PaymentReversal, txn)
				e.RequestID = txn.ID
				return b.eventOf(e)
			}
			return locks{
				testenv.Runs(`SELECT FROM inbound_events WHERE id = $1 FOR UPDATE`, last), testenv.LocksBalance(b.account),
				func() error { return b.svc.ReceiveTogether(b.ctx, reversal(one), reversal(two)) },
			}
		},
		"events and the bank's list, by transaction": func(b *splits) locks {
			event := func(request, transaction string) func(e *fakebank.Event) {
				return func(e *fakebank.Event) { e.RequestID, e.Data.Transaction.TransactionID = request, transaction }
			}
			key := func(transaction string) func(pg.Tx) error {
				return testenv.Runs(`INSERT INTO event_keys (request, transaction, event_id, event_type) VALUES (gen_random_uuid(), event_key($1), gen_random_uuid(), 'payment_success')`, transaction)
			}
			return locks{key("A"), key("B"), func() error {
				_ = b.svc.ReceiveTogether(b.ctx, b.event(event("1", "B")), b.event(event("2", "A"))) // of keys without events
				return nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := setupSplit(t)
			l := prepare(b)
			require.NoError(t, b.InOrder(l.first, l.later, l.call))
		})
	}
}

// platformPays makes and posts a payment to the account platform, which is younger than the other.
func (b *splits) platformPays() (fakebank.Transaction, uuid.UUID) {
	b.T.Helper()
	b.OpenAtBank(b.bank, b.platform)
	id, txn := b.pays("1000.00", func(p *fakebank.Payment) { p.AccountRef = b.platform.String() })
	return txn, id
}

// A payment that was taken back before it was posted has no parts yet: posting it waits for none of
// its account's parties.
func TestPostingLocksNoParties(t *testing.T) {
	b := setupSplit(t)
	b.OpenAtBank(b.bank, b.platform)
	shares := []account.NewShare{{AccountRef: "customer-1", Percent: "25"}}
	_, err := b.accounts.Update(b.ctx, b.tenant, "platform", account.Changes{Split: &shares}, byHand)
	require.NoError(t, err)
	txn := testenv.PaySilently(t, b.bank, b.platform, "5000.00")
	id := b.receive(b.sign(b.bank.EventFor(txn))).ID
	b.receive(b.reversal(txn))
	require.NoError(t, b.Beside(testenv.LocksBalance(b.account), func() error { return b.svc.PostTogether(b.ctx, id) }))
	require.Equal(t, "open", testenv.Value[string](b.Env, `SELECT status FROM recalls WHERE event_id = $1`, id))
}
