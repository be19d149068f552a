package ledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// limitTier sets the limits of a tier of the account's tenant; "" is none. The neighbour's begin
// later.
func (b *books) limitTier(tier int, deposit, day, balance string) {
	b.T.Helper()
	now := b.Clock.Now()
	b.setLimits(b.account, tier, now, deposit, day, balance)
	b.setLimits(b.neighbour, tier, now.Add(time.Microsecond), "0.00", "0.00", "0.00")
	b.Clock.Advance(time.Second)
}

// setLimits sets the limits of a tier of an account's tenant from a time on; of uuid.Nil, none.
func (b *books) setLimits(account uuid.UUID, tier int, at time.Time, deposit, day, balance string) {
	b.T.Helper()
	b.Exec(`INSERT INTO tier_limits (tenant_id, tier, starts_at, max_deposit, max_day, max_balance, created_at, actor, reason)
		SELECT tenant_id, $2, $3, nullif($4, '')::numeric, nullif($5, '')::numeric, nullif($6, '')::numeric, $3, 'cli:ada', 'the law' FROM accounts WHERE id = $1`,
		account, tier, at, deposit, day, balance)
}

// deposit posts payments in one call, as a batch does.
func (b *books) deposit(amounts ...string) (out []ledger.Entry) {
	b.T.Helper()
	postings := make([]ledger.Posting, len(amounts))
	for i, a := range amounts {
		postings[i] = posting(b.account, a)
		postings[i].Tiered = true
	}
	require.NoError(b.T, b.tx(func(tx pg.Tx) (err error) {
		out, err = ledger.PostCredits(b.ctx, tx, b.Clock.Now(), postings)
		return err
	}))
	return out
}

// setTier gives the account's customer another tier, and reports how many accounts had money
// released.
func (b *books) setTier(tier int, then error) (released int) {
	b.T.Helper()
	err := b.tx(func(tx pg.Tx) error {
		var customer uuid.UUID
		if err := tx.QueryRow(b.ctx, `UPDATE customers SET kyc_tier = $2 WHERE id = (SELECT customer_id FROM accounts WHERE id = $1) RETURNING id`, b.account, tier).
			Scan(&customer); err != nil {
			return err
		}
		of, last, err := ledger.ApplyTier(b.ctx, tx, b.Clock.Now(), customer, ledger.HeldAt{}, 1000)
		require.Zero(b.T, last)
		released = len(of)
		return errors.Join(err, then)
	})
	require.ErrorIs(b.T, err, then)
	return released
}

// limitHolds are the open holds of limits, oldest first, as "amount reason".
func (b *books) limitHolds() (out []string) {
	b.T.Helper()
	list, _, err := ledger.ReadHolds(b.ctx, b.Pool, b.Clock.Now(), b.owner(), b.account, ledger.HoldOpen, page.Request{Limit: 100})
	require.NoError(b.T, err)
	for _, h := range list {
		if h.Source == ledger.HeldByLimit {
			require.NotNil(b.T, h.EntryID)
			out = append([]string{h.Amount.String() + " " + h.Reason}, out...)
		}
	}
	return out
}

// What is exactly at a limit is free, and each kobo above is held, whichever limit it is; the
// lowest is named. Money that is not confirmed covers nothing, held or not.
func TestDepositLimitsToTheKobo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deposit, day, balance string
		first, second         []string
		held                  []string
	}{
		"deposit": {"100.00", "", "", []string{"100.00"}, []string{"100.01"}, []string{"0.01 maxDeposit of tier 1: NGN 100.00"}},
		"day":     {"", "100.00", "", []string{"60.00", "40.00"}, []string{"0.01"}, []string{"0.01 maxDay of tier 1: NGN 100.00"}},
		"balance": {"", "", "100.00", []string{"99.99", "0.01"}, []string{"0.01"}, []string{"0.01 maxBalance of tier 1: NGN 100.00"}},
		"lowest": {"80.00", "90.00", "100.00", []string{"80.00"}, []string{"30.00", "5.00"}, []string{
			"20.00 maxDay of tier 1: NGN 90.00", "5.00 maxDay of tier 1: NGN 90.00",
		}},
		"none at all": {"0.00", "", "", nil, []string{"7.00"}, []string{"7.00 maxDeposit of tier 1: NGN 0.00"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.limitTier(1, c.deposit, c.day, c.balance)
			all := b.deposit(c.first...)
			require.Empty(t, b.limitHolds())
			all = append(all, b.deposit(c.second...)...)
			require.Equal(t, c.held, b.limitHolds())
			var sum, free money.Amount
			for _, e := range all {
				sum = sum.Add(e.Amount)
			}
			available, held := b.left()
			require.Equal(t, "0.00", available.String(), "nothing is confirmed")
			require.Equal(t, sum.String(), b.balance())
			free = sum.Sub(held)
			_, err := b.debit(free.Add(money.FromKobo(1)).String())
			require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
			for _, e := range all {
				b.move(e, ledger.EventConfirm)
				b.verify()
			}
			available, _ = b.left()
			require.Equal(t, free.String(), available.String())
			if free.Sign() > 0 {
				_, err = b.debit(free.String())
				require.NoError(t, err)
			}
			b.holds("0.00 " + held.String())
		})
	}
}

// Many in one call go by each other, a day by its own sum, and limits by their start. A tenant
// without limits has no sums and no holds.
func TestDepositsOfADay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Clock.Set(time.Date(2026, 3, 1, 20, 0, 0, 0, time.UTC))
	b.deposit("1000.00")
	require.Equal(t, 0, testenv.Value[int](b.Env, `SELECT count(*) FROM deposit_days`))
	b.limitTier(1, "", "100.00", "")
	b.deposit("60.00", "60.00", "60.00")
	require.Equal(t, []string{"20.00 maxDay of tier 1: NGN 100.00", "60.00 maxDay of tier 1: NGN 100.00"}, b.limitHolds())
	midnight := time.Date(2026, 3, 2, 0, 0, 0, 0, clock.Lagos)
	b.Clock.Set(midnight.Add(-time.Second))
	b.deposit("0.01")
	require.Len(t, b.limitHolds(), 3)
	full := b.account
	b.account = b.Account(b.owner(), "customer-2")
	b.deposit("100.00")
	require.Empty(t, b.limitHolds(), "an account has its own days")
	b.account = full
	b.Clock.Set(midnight)
	b.deposit("100.00", "0.02")
	require.Len(t, b.limitHolds(), 4)
	b.limitTier(1, "", "", "")
	b.deposit("5000.00")
	require.Len(t, b.limitHolds(), 4)
	b.verify()
}

// Limits that are set for now bound the next payment, also where the clock of the process that
// posts it is behind that of the one that has set them.
func TestDepositLimitsForNowByAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.setLimits(b.account, 1, b.Clock.Now().Add(400*time.Millisecond), "50.00", "", "")
	b.deposit("80.00")
	require.Equal(t, []string{"30.00 maxDeposit of tier 1: NGN 50.00"}, b.limitHolds())
	b.verify()
}

// A higher tier releases what it allows, once: not what is above its own limits, not again, and not
// when the change is not committed. A lower tier takes nothing back.
func TestATierReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "50.00", "", "")
	b.limitTier(2, "70.00", "", "")
	first, second := b.deposit("80.00")[0], b.deposit("60.00")[0]
	b.move(first, ledger.EventConfirm)
	b.holds("50.00 40.00")
	errDied := errors.New("died before the commit")
	require.Equal(t, 1, b.setTier(2, errDied))
	b.holds("50.00 40.00")
	require.Equal(t, 1, b.setTier(2, nil))
	require.Equal(t, []string{"10.00 maxDeposit of tier 2: NGN 70.00"}, b.limitHolds())
	b.holds("70.00 10.00")
	require.Zero(t, b.setTier(2, nil), "once")
	b.move(second, ledger.EventConfirm)
	b.holds("130.00 10.00")
	require.Zero(t, b.setTier(1, nil))
	b.deposit("51.00")
	b.holds("130.00 11.00")
	require.Equal(t, 1, b.setTier(3, nil))
	b.holds("140.00 0.00")

	b.limitTier(3, "", "", "")
	require.Zero(t, b.setTier(3, nil))
	require.Equal(t, 4, testenv.Value[int](b.Env, `SELECT count(*) FROM holds WHERE source = 'limit' AND status = 'released'`))
}

// A tier releases the money of its own customer: another's stays held until that one's tier is set.
func TestATierReleasesForItsCustomer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "50.00", "", "")
	b.deposit("80.00")
	own := b.account
	b.account = b.Account(b.owner(), "customer-2")
	b.deposit("80.00")
	b.limitTier(1, "60.00", "", "")
	require.Equal(t, 1, b.setTier(1, nil))
	require.Equal(t, []string{"20.00 maxDeposit of tier 1: NGN 60.00"}, b.limitHolds())
	b.account = own
	require.Equal(t, []string{"30.00 maxDeposit of tier 1: NGN 50.00"}, b.limitHolds())
	b.verify()
}

// Two upgrades at once, beside payments: each hold is released once, and none stays that the tier
// by then allows.
func TestTiersAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "", "100.00", "")
	b.limitTier(2, "", "1000.00", "")
	testenv.AtOnce(60, func(i int) {
		if i%20 == 10 {
			b.setTier(2, nil)
		} else {
			b.deposit("10.00", "3.00")
		}
	})
	b.verify()
	available, held := b.left()
	require.Equal(t, "0.00 0.00", available.String()+" "+held.String(), "741.00 are allowed on the day")
	require.Equal(t, "741.00", testenv.Value[money.Amount](b.Env, `SELECT allowed FROM deposit_days`).String())
}

// A hold ends with its credit, however that leaves the balance, and its day has room again; one
// that returns from a review is looked at anew.
func TestAHeldCreditLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "", "100.00", "")
	e := b.deposit("130.00")[0]
	b.move(e, ledger.EventReverse)
	b.holds("0.00 0.00")
	e = b.deposit("130.00")[0]
	require.Len(t, b.limitHolds(), 1)
	b.move(e, ledger.EventHold)
	b.holds("0.00 0.00")
	free := b.deposit("40.00")[0]
	b.move(free, ledger.EventConfirm)
	b.holds("40.00 0.00")
	b.move(e, ledger.EventConfirm)
	b.holds("100.00 70.00")
	require.Equal(t, []string{"70.00 maxDay of tier 1: NGN 100.00"}, b.limitHolds())
	b.hold(e)
	available, held := b.left()
	require.Equal(t, "-30.00 70.00", available.String()+" "+held.String(), "a recall holds the whole payment, beside the limit, until it is decided")
	b.Exec(`UPDATE ledger_balances SET recall_held = 0 WHERE account_id = $1`, b.account)
}

// The tenant cannot release a limit's hold, an operator can; the account's own holds are others.
func TestHoldsOfLimitsAreOperators(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "50.00", "", "")
	confirmed, open := b.deposit("80.00")[0], b.deposit("60.00")[0]
	b.move(confirmed, ledger.EventConfirm)
	own, err := b.placeHold("20.00", nil)
	require.NoError(t, err)
	require.Equal(t, ledger.HeldByTenant, own.Source)
	require.Nil(t, own.EntryID)
	for _, id := range []uuid.UUID{confirmed.ID, open.ID} {
		h := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE entry_id = $1`, id)
		_, err = b.releaseHold(h)
		require.ErrorIs(t, err, ledger.ErrHoldOfLimit)
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			_, err := ledger.ReleaseAnyHold(b.ctx, tx, b.Clock.Now(), h)
			return err
		}))
		b.verify()
	}
	b.holds("60.00 20.00")
	require.Zero(t, b.setTier(3, nil))
	_, err = b.releaseHold(own.ID)
	require.NoError(t, err)
	b.holds("80.00 0.00")
}

// What an operator has released counts among the deposits of its day: when its payment leaves, the
// others of the day are still counted in full.
func TestAReleasedCreditLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "", "100.00", "")
	b.deposit("80.00")
	over := b.deposit("50.00")[0]
	require.Equal(t, []string{"30.00 maxDay of tier 1: NGN 100.00"}, b.limitHolds())
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := ledger.ReleaseAnyHold(b.ctx, tx, b.Clock.Now(), testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE entry_id = $1`, over.ID))
		return err
	}))
	b.deposit("10.00") // is held, as it is above the limit
	b.move(over, ledger.EventReverse)
	reviewed := b.deposit("5.00")[0]
	b.move(reviewed, ledger.EventHold)
	b.move(reviewed, ledger.EventReverse) // its room in the day is free since the review
	paid, err := b.debit("7.00")
	require.NoError(t, err)
	b.move(paid, ledger.EventReverse) // a payout takes no room, and leaves none
	b.deposit("20.01")
	require.Equal(t, []string{"10.00 maxDay of tier 1: NGN 100.00", "0.01 maxDay of tier 1: NGN 100.00"}, b.limitHolds())
	b.verify()
}

// A credit that no limit has looked at leaves no room in its day when the bank takes it back: one
// that came before the tenant had limits, and one that a policy held until it went back to its
// sender. One that the tenant has released of its policy was looked at, also where a limit has held
// a part of it since, and one that a person has confirmed.
func TestAnUncountedCreditLeaves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before, reviewed := b.deposit("60.00")[0], b.deposit("7.00")[0]
	b.move(reviewed, ledger.EventHold)
	kept := func(amount string) (e ledger.Entry) {
		p := posting(b.account, amount)
		p.Tiered, p.Policy = true, &ledger.Policy{Source: ledger.HeldForRefund, Reason: "under"}
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			list, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p})
			e = list[0]
			return err
		}))
		b.move(e, ledger.EventConfirm)
		return e
	}
	today := func() string {
		return testenv.Value[money.Amount](b.Env, `SELECT coalesce(sum(allowed), 0) FROM deposit_days WHERE account_id = $1`, b.account).String()
	}
	release := func(e ledger.Entry) {
		hold := testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE status = 'open' AND entry_id = $1`, e.ID)
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			_, err := ledger.ReleaseHold(b.ctx, tx, b.Clock.Now(), b.owner(), hold)
			return err
		}))
	}
	early, large := kept("50.00"), kept("100.00")
	b.Clock.Advance(time.Second)
	b.limitTier(1, "", "200.00", "")
	b.Clock.Advance(time.Second)
	own := b.account
	b.account = b.Account(b.owner(), "customer-2")
	b.deposit("90.00")
	b.account = own
	b.move(reviewed, ledger.EventConfirm)
	require.Equal(t, "7.00", today())
	release(early)
	require.Equal(t, "57.00", today())
	refunded, released := kept("50.00"), kept("50.00")
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		return ledger.SetPolicyHold(b.ctx, tx, b.Clock.Now(), ledger.PolicyHold{AccountID: b.account, EntryID: refunded.ID})
	}))
	release(released)
	b.deposit("30.00")
	require.Equal(t, "137.00", today())
	release(large) // of which the day's limit holds the rest
	require.Equal(t, "200.00", today())
	for _, c := range []struct {
		ledger.Entry
		event ledger.Event
		want  string
	}{
		{large, ledger.EventRecall, "137.00"},
		{before, ledger.EventReverse, "137.00"},
		{refunded, ledger.EventRecall, "137.00"},
		{released, ledger.EventRecall, "87.00"},
		{early, ledger.EventRecall, "37.00"},
		{reviewed, ledger.EventRecall, "30.00"},
	} {
		b.move(c.Entry, c.event)
		require.Equal(t, c.want, today())
		b.verify()
	}
	require.Equal(t, "90.00", testenv.Value[money.Amount](b.Env, `SELECT allowed FROM deposit_days WHERE account_id <> $1`, b.account).String(), "another account has its own days")
}

// A part of a payment that comes back from a refund after the tenant has released the rest is held
// and released once more. The payment counts once among the deposits of its day, and not at all
// once the bank has taken it back. No limit holds more of it than if it had been released at once.
func TestACreditThatIsReleasedTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deposit             string
		first, back, second string // what counts after the release, the return and the next release
		held                []string
	}{
		"below the limits": {"", "100.00", "100.00", "100.00", nil},
		"above the limit":  {"50.00", "50.00", "100.00", "50.00", []string{"50.00 maxDeposit of tier 1: NGN 50.00"}},
	} {
		for _, ends := range []string{"released", "held", "refunded"} {
			t.Run(name+" "+ends, func(t *testing.T) {
				b := setup(t)
				b.limitTier(1, c.deposit, "150.00", "")
				p := posting(b.account, "100.00")
				p.Tiered, p.Policy = true, &ledger.Policy{Source: ledger.HeldByPolicy, Reason: "under"}
				var e ledger.Entry
				require.NoError(t, b.tx(func(tx pg.Tx) error {
					list, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{p})
					e = list[0]
					return err
				}))
				b.move(e, ledger.EventConfirm)
				counts := func(want string) {
					t.Helper()
					b.verify()
					require.Equal(t, want, testenv.Value[money.Amount](b.Env, `SELECT coalesce(sum(allowed), 0) FROM deposit_days WHERE account_id = $1`, b.account).String())
				}
				keep := func(amount string) {
					t.Helper()
					b.Clock.Advance(time.Second)
					require.NoError(t, b.tx(func(tx pg.Tx) error {
						return ledger.SetPolicyHold(b.ctx, tx, b.Clock.Now(), ledger.PolicyHold{
							AccountID: b.account, EntryID: e.ID, Amount: money.Must(amount), Policy: ledger.Policy{Source: ledger.HeldByPolicy, Reason: "not refunded"},
						})
					}))
				}
				release := func() {
					t.Helper()
					b.Clock.Advance(time.Second)
					_, err := b.releaseHold(testenv.Value[uuid.UUID](b.Env, `SELECT id FROM holds WHERE status = 'open' AND entry_id = $1`, e.ID))
					require.NoError(t, err)
				}
				keep("60.00") // a refund of 40.00 takes its part
				counts("0.00")
				release()
				counts(c.first)
				require.Equal(t, c.held, b.limitHolds())
				// the refund fails: its money is held, beside what a limit holds
				keep(map[bool]string{true: "40.00", false: "90.00"}[c.held == nil])
				counts(c.back)
				switch ends {
				case "released":
					release()
					counts(c.second)
					require.Equal(t, c.held, b.limitHolds())
					b.deposit("50.00")
					require.Equal(t, c.held, b.limitHolds(), "the day has room for another 50.00")
					b.move(e, ledger.EventRecall)
					counts("50.00")
					return
				case "refunded": // by another refund
					keep("0.00")
					counts(c.back)
				}
				b.move(e, ledger.EventRecall)
				counts("0.00")
			})
		}
	}
}

// What a tier leaves above its limits is held by a new hold, and the payment keeps its place before
// those that came after it.
func TestTierReleasesTheOldestPaymentFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.limitTier(1, "0.00", "", "")
	b.limitTier(2, "", "30.00", "")
	b.limitTier(3, "", "80.00", "")
	b.deposit("60.00", "50.00")
	require.Equal(t, 1, b.setTier(2, nil))
	require.Equal(t, 1, b.setTier(3, nil))
	open := testenv.Value[string](b.Env, `
		SELECT string_agg(e.amount || ': ' || h.amount, ', ') FROM holds h JOIN ledger_entries e ON e.id = h.entry_id WHERE h.account_id = $1 AND h.status = 'open'`, b.account)
	require.Equal(t, "50.00: 30.00", open)
	b.verify()
}

// Any sequence of payments, confirmations, reversals, debits and tiers: what is free of each
// payment is what the limits left room for, what is available is that of the confirmed ones less
// debits, and no debit takes what is held.
func TestDepositLimitProperties(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type deposit struct {
		ledger.Entry
		free      int64
		confirmed bool
	}
	const unlimited = 1 << 40
	limits := map[int][3]int64{1: {100_00, 250_00, 300_00}, 2: {200_00, 400_00, unlimited}, 3: {unlimited, unlimited, unlimited}}
	text := func(k int64) string { return money.FromKobo(k).String() }
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		run := &books{Env: b.Env, ctx: b.ctx, account: b.Account(b.Tenant(), fmt.Sprintf("run-%d", n))}
		run.limitTier(1, "100.00", "250.00", "300.00")
		run.limitTier(2, "200.00", "400.00", "")
		tier := 1
		var all []*deposit
		var debits, today int64
		balance := func() (free int64) {
			for _, d := range all {
				free += d.free
			}
			return free - debits
		}
		room := func(d *deposit) int64 {
			l := limits[tier]
			return max(0, min(d.Amount.Kobo().Int64()-d.free, l[0]-d.free, l[1]-today, l[2]-balance()))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"deposit": func(rt *rapid.T) {
				amounts := rapid.SliceOfN(rapid.Int64Range(1, 300_00), 1, 3).Draw(rt, "kobo")
				texts := make([]string, len(amounts))
				for i, k := range amounts {
					texts[i] = text(k)
				}
				for _, e := range run.deposit(texts...) {
					d := &deposit{Entry: e}
					d.free = room(d)
					all, today = append(all, d), today+d.free
				}
			},
			"settle": func(rt *rapid.T) {
				if len(all) == 0 {
					rt.Skip("no deposit yet")
				}
				i := rapid.IntRange(0, len(all)-1).Draw(rt, "deposit")
				d := all[i]
				if d.confirmed {
					rt.Skip("confirmed")
				}
				if d.confirmed = rapid.Bool().Draw(rt, "confirmed"); d.confirmed {
					run.move(d.Entry, ledger.EventConfirm)
					return
				}
				if balance()-d.free < 0 {
					rt.Skip("its money is on its way out")
				}
				run.move(d.Entry, ledger.EventReverse)
				all, today = append(all[:i:i], all[i+1:]...), today-d.free
			},
			"debit": func(rt *rapid.T) {
				k := rapid.Int64Range(1, 200_00).Draw(rt, "kobo")
				_, err := run.debit(text(k))
				if (balance() >= k) != (err == nil) {
					rt.Fatalf("debit of %d of %d: %v", k, balance(), err)
				}
				if err == nil {
					debits += k
				}
			},
			"tier": func(rt *rapid.T) {
				tier = rapid.IntRange(1, 3).Draw(rt, "tier")
				run.setTier(tier, nil)
				for _, d := range all {
					more := room(d)
					d.free, today = d.free+more, today+more
				}
			},
			"": func(rt *rapid.T) {
				var confirmed, held int64
				for _, d := range all {
					held += d.Amount.Kobo().Int64() - d.free
					if d.confirmed {
						confirmed += d.free
					}
				}
				available, kept := run.left()
				if available.String() != text(confirmed-debits) || kept.String() != text(held) {
					rt.Fatalf("available %s, held %s; want %s, %s", available, kept, text(confirmed-debits), text(held))
				}
			},
		})
	})
	b.verify()
}
