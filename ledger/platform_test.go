package ledger_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// charged posts a payment with what the platform takes of it.
func (b *books) charged(amount, fee, vat int64) ledger.Entry {
	b.T.Helper()
	p := posting(b.account, money.FromKobo(amount).String())
	p.Tiered, p.Price = true, new(uuid.New())
	var out []ledger.Entry
	require.NoError(b.T, b.tx(func(tx pg.Tx) (err error) {
		out, err = ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p.WithCharges(money.FromKobo(fee), money.FromKobo(vat))})
		return err
	}))
	return out[0]
}

// A policy holds what the platform leaves: nothing of a payment that the platform takes whole.
func TestAPolicyHoldsWhatThePlatformLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, amount := range []string{"20.00", "20.01"} {
		p := posting(b.account, amount)
		p.Price, p.Policy = new(uuid.New()), &ledger.Policy{Source: ledger.HeldByPolicy, Reason: "less than expected"}
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p.WithCharges(money.Must("18.60"), money.Must("1.40"))})
			return err
		}))
	}
	require.Equal(t, "0.01", testenv.Value[string](b.Env, `SELECT string_agg(amount::text, ' ') FROM holds WHERE account_id = $1`, b.account))
}

// Payments of an account with limits, what the platform takes of them, and all that may become of
// them, in any order and with any sums: the account's sums are those of what the payments leave,
// its available money is spent at any time and never falls below zero, and the books hold.
func TestWhatThePlatformTakesOfAnything(t *testing.T) {
	b := setup(t)
	type payment struct {
		ledger.Entry
		amount, kept int64
		status       ledger.Status
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		tenant := b.Tenant()
		run := &books{Env: b.Env, ctx: b.ctx, account: b.Account(tenant, fmt.Sprintf("run-%d", n))}
		other := b.Account(tenant, fmt.Sprintf("other-%d", n))
		if rapid.Bool().Draw(rt, "limited") {
			run.limitTier(1, "100.00", "250.00", "300.00")
		}
		var all []*payment
		var spent int64
		pick := func(rt *rapid.T, from ...ledger.Status) *payment {
			if len(all) == 0 {
				rt.Skip("no payment yet")
			}
			p := all[rapid.IntRange(0, len(all)-1).Draw(rt, "payment")]
			for _, s := range from {
				if p.status == s {
					return p
				}
			}
			rt.Skip(p.status)
			return nil
		}
		to := func(p *payment, event ledger.Event, s ledger.Status) {
			run.move(p.Entry, event)
			p.status = s
		}
		rt.Repeat(map[string]func(*rapid.T){
			"payment": func(rt *rapid.T) {
				amount := rapid.Int64Range(1, 300_00).Draw(rt, "amount")
				fee := rapid.OneOf(rapid.Just(amount), rapid.Int64Range(0, amount)).Draw(rt, "fee")
				vat := rapid.Int64Range(0, amount-fee).Draw(rt, "vat")
				all = append(all, &payment{run.charged(amount, fee, vat), amount, amount - fee - vat, ledger.Provisional})
			},
			"confirm": func(rt *rapid.T) {
				to(pick(rt, ledger.Provisional, ledger.NeedsReview), ledger.EventConfirm, ledger.Confirmed)
			},
			"reverse": func(rt *rapid.T) {
				to(pick(rt, ledger.Provisional, ledger.NeedsReview), ledger.EventReverse, ledger.Reversed)
			},
			"review": func(rt *rapid.T) { to(pick(rt, ledger.Provisional), ledger.EventHold, ledger.NeedsReview) },
			"spend": func(rt *rapid.T) {
				available, _ := run.left()
				if available.Sign() <= 0 {
					rt.Skip("nothing is available")
				}
				sum := rapid.Int64Range(1, available.Kobo().Int64()).Draw(rt, "sum")
				require.NoError(t, run.tx(func(tx pg.Tx) error {
					_, _, err := ledger.PostBookTransfer(run.ctx, tx, run.Clock.Now(), ledger.BookTransfer{
						ID: uuid.Must(uuid.NewV7()), From: run.account, To: other, Amount: money.FromKobo(sum),
					})
					return err
				}))
				spent += sum
			},
			"": func(rt *rapid.T) {
				var provisional, confirmed int64
				for _, p := range all {
					switch p.status {
					case ledger.Provisional:
						provisional += p.kept
					case ledger.Confirmed:
						confirmed += p.kept
					}
				}
				require.Equal(rt, money.FromKobo(provisional+confirmed-spent).String(), run.balance())
				require.Equal(rt, money.FromKobo(provisional).String(), testenv.Value[money.Amount](run.Env, `SELECT provisional_credits FROM ledger_balances WHERE account_id = $1`, run.account).String())
				available, _ := run.left()
				if available.Sign() < 0 || available.Kobo().Int64() > confirmed-spent {
					rt.Fatalf("%s is available of %d less %d", available, confirmed, spent)
				}
			},
		})
	})
	b.verify()
}
