package ledger_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/fsm"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/ledger"
)

func (b *books) owner() uuid.UUID {
	return testenv.Value[uuid.UUID](b.Env, `SELECT tenant_id FROM accounts WHERE id = $1`, b.account)
}

func (b *books) placeHold(amount string, until *time.Time) (h ledger.Hold, err error) {
	err = b.tx(func(tx pg.Tx) error {
		h, err = ledger.PlaceHold(b.ctx, tx, b.Clock.Now(), ledger.NewHold{AccountID: b.account, Amount: money.Must(amount), Reason: "a dispute", Until: until})
		return err
	})
	return h, err
}

func (b *books) releaseHold(id uuid.UUID) (h ledger.Hold, err error) {
	tenant := b.owner()
	err = b.tx(func(tx pg.Tx) error {
		h, err = ledger.ReleaseHold(b.ctx, tx, b.Clock.Now(), tenant, id)
		return err
	})
	return h, err
}

// left is what is available and what holds keep, as readers without a lock see it.
func (b *books) left() (available, held money.Amount) {
	b.T.Helper()
	require.NoError(b.T, b.Pool.QueryRow(b.ctx, `SELECT `+ledger.Available("false", "$2")+`, `+ledger.OnHold("$2")+` FROM ledger_balances b WHERE account_id = $1`,
		b.account, b.Clock.Now()).Scan(&available, &held))
	return available, held
}

func (b *books) holds(want string) {
	b.T.Helper()
	available, held := b.left()
	require.Equal(b.T, want, available.String()+" "+held.String())
	b.verify()
}

// A hold keeps confirmed money from settlements until it is released or its time has come; the
// balance stays.
func TestHoldOfATenant(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("100.00"), ledger.EventConfirm)
	b.credit("50.00") // not confirmed
	_, err := b.placeHold("100.01", nil)
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	soon := b.Clock.Now().Add(time.Hour)
	first, err := b.placeHold("60.00", &soon)
	require.NoError(t, err)
	require.Equal(t, ledger.Hold{
		ID: first.ID, AccountRef: "customer-1", AccountID: b.account, Amount: money.Must("60.00"), Currency: "NGN", Reason: "a dispute", Source: ledger.HeldByTenant,
		Status: ledger.HoldOpen, Until: &soon, CreatedAt: b.Clock.Now(),
	}, first)
	second, err := b.placeHold("40.00", nil)
	require.NoError(t, err)
	_, err = b.placeHold("0.01", nil)
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	b.holds("0.00 100.00")
	require.Equal(t, "150.00", b.balance())
	_, err = b.debit("50.01")
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	_, err = b.debit("50.00") // of money that is not confirmed: it waits for that
	require.NoError(t, err)
	b.holds("-50.00 100.00")

	b.Clock.Set(soon) // nobody writes, and it counts no more
	b.holds("10.00 40.00")
	_, err = b.releaseHold(first.ID)
	require.ErrorIs(t, err, ledger.ErrHoldEnded)
	released, err := b.releaseHold(second.ID)
	require.NoError(t, err)
	require.Equal(t, ledger.HoldReleased, released.Status)
	require.Equal(t, soon, *released.EndedAt)
	b.holds("50.00 0.00")
	_, err = b.releaseHold(second.ID)
	require.ErrorIs(t, err, ledger.ErrHoldEnded)
	_, err = b.releaseHold(uuid.New())
	require.ErrorIs(t, err, ledger.ErrHoldNotFound)

	read := func(status ledger.HoldStatus) (ids []uuid.UUID) {
		list, _, err := ledger.ReadHolds(b.ctx, b.Pool, b.Clock.Now(), b.owner(), b.account, status, page.Request{Limit: 10})
		require.NoError(t, err)
		for _, h := range list {
			ids = append(ids, h.ID)
			require.True(t, status == "" || h.Status == status)
		}
		return ids
	}
	require.Equal(t, []uuid.UUID{second.ID, first.ID}, read(""))
	require.Equal(t, []uuid.UUID{second.ID}, read(ledger.HoldReleased))
	require.Equal(t, []uuid.UUID{first.ID}, read(ledger.HoldExpired))
	require.Empty(t, read(ledger.HoldOpen))
	list, _, err := ledger.ReadHolds(b.ctx, b.Pool, b.Clock.Now(), b.Tenant(), b.account, "", page.Request{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list, "another tenant's account")
	_, _, err = ledger.ReadHolds(b.ctx, b.Pool, b.Clock.Now(), b.owner(), b.account, "all", page.Request{Limit: 10})
	require.ErrorIs(t, err, ledger.ErrHoldStatus)
	_, err = ledger.FindHold(b.ctx, b.Pool, b.Clock.Now(), b.Tenant(), second.ID)
	require.ErrorIs(t, err, ledger.ErrHoldNotFound, "another tenant's")

	later := soon.Add(time.Hour)
	for _, until := range []*time.Time{&later, nil} { // what is released ends no more at its until
		h, err := b.placeHold("10.00", until)
		require.NoError(t, err)
		_, err = b.releaseHold(h.ID)
		require.NoError(t, err)
		b.holds("50.00 0.00")
	}
}

// A page of holds looks at the account's own, and ends where it has looked at its share: the next
// one goes on there. A page of all tenants' holds looks at all.
func TestHoldsBehindManyOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("100.00"), ledger.EventConfirm)
	own, err := b.placeHold("30.00", nil)
	require.NoError(t, err)
	many := func(account uuid.UUID) {
		require.NoError(t, b.tx(func(tx pg.Tx) error {
			_, err := tx.Exec(b.ctx, `INSERT INTO holds (id, tenant_id, account_id, amount, reason, status, created_at, ended_at)
				SELECT `+testenv.IDsAfter(own.ID)+`, tenant_id, id, 1, 'x', 'released', $2, $2 FROM accounts, generate_series(1, $3::int) WHERE id = $1`,
				account, b.Clock.Now(), pg.ScanLimit)
			return err
		}))
	}
	pages := func() (out [][]uuid.UUID) {
		for _, rows := range testenv.Pages(t, 10, func(r page.Request) ([]ledger.Hold, page.Info, error) {
			return ledger.ReadHolds(b.ctx, b.Pool, b.Clock.Now(), b.owner(), b.account, ledger.HoldOpen, r)
		}) {
			var ids []uuid.UUID
			for _, h := range rows {
				ids = append(ids, h.ID)
			}
			out = append(out, ids)
		}
		return out
	}
	many(b.Account(b.owner(), "sibling"))
	require.Equal(t, [][]uuid.UUID{{own.ID}}, pages(), "another account's are not looked at")
	list, _, err := ledger.ReadHolds(b.ctx, b.Pool, b.Clock.Now(), b.owner(), b.account, "", page.Request{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []ledger.Hold{own}, list, "nor shown")
	many(b.account)
	require.Equal(t, [][]uuid.UUID{nil, {own.ID}}, pages())

	all := testenv.Pages(t, 10, func(r page.Request) ([]ledger.AnyHold, page.Info, error) {
		return ledger.ListHolds(b.ctx, b.Pool, b.Clock.Now(), ledger.HoldFilter{TenantID: b.owner()}, r)
	})
	require.Equal(t, []int{0, 0, 1}, []int{len(all[0]), len(all[1]), len(all[2])})
	require.Equal(t, own.ID, all[2][0].ID)
}

// What operators see of holds: the open ones, each with its own account and tenant.
func TestOpenHoldsOfAllTenants(t *testing.T) {
	t.Parallel()
	b := alone(t)
	place := func(amount string, until *time.Time) ledger.Hold {
		b.move(b.credit("100.00"), ledger.EventConfirm)
		h, err := b.placeHold(amount, until)
		require.NoError(t, err)
		return h
	}
	ending := b.Clock.Now().Add(time.Minute)
	expired := place("10.00", &ending)
	first := place("20.00", nil)
	b.Exec(`UPDATE tenants SET name = 'First' WHERE id = $1`, b.owner())
	firstTenant := b.owner()
	b.Clock.Advance(time.Minute)
	b.account = b.Account(b.Tenant(), "customer-2")
	b.Exec(`UPDATE tenants SET name = 'Second' WHERE id = $1`, b.owner())
	second := place("30.00", nil)
	later := place("40.00", new(ending.Add(time.Microsecond)))
	released := place("50.00", nil)
	b.Exec(`UPDATE holds SET status = 'released', ended_at = $2 WHERE id = $1`, released.ID, b.Clock.Now())

	now := b.Clock.Now()
	list := func(f ledger.HoldFilter) (out []string) {
		rows, _, err := ledger.ListHolds(b.ctx, b.Pool, now, f, page.Request{Limit: 10})
		require.NoError(t, err)
		for _, h := range rows {
			out = append(out, fmt.Sprint(h.TenantName, " ", h.AccountRef, " ", h.Amount))
		}
		return out
	}
	all := []string{"Second customer-2 40.00", "Second customer-2 30.00", "First customer-1 20.00"}
	require.Equal(t, all, list(ledger.HoldFilter{}), "not %s, nor %s", expired.ID, released.ID)
	var paged []string
	for _, rows := range testenv.Pages(t, 1, func(r page.Request) ([]ledger.AnyHold, page.Info, error) {
		return ledger.ListHolds(b.ctx, b.Pool, now, ledger.HoldFilter{}, r)
	}) {
		for _, h := range rows {
			paged = append(paged, fmt.Sprint(h.TenantName, " ", h.AccountRef, " ", h.Amount))
		}
	}
	require.Equal(t, all, paged, "page by page")
	require.Equal(t, all[:2], list(ledger.HoldFilter{TenantID: b.owner()}))
	require.Equal(t, all, list(ledger.HoldFilter{Source: ledger.HeldByTenant}))
	require.Empty(t, list(ledger.HoldFilter{Source: ledger.HeldByLimit}))
	require.Equal(t, all[2:], list(ledger.HoldFilter{Before: second.CreatedAt}), "before %s and %s", second.ID, later.ID)
	sums, err := ledger.SumHolds(b.ctx, b.Pool, now, ledger.HoldFilter{})
	require.NoError(t, err)
	require.Len(t, sums, 2)
	require.Equal(t, []any{b.owner(), "Second", int64(2), "70.00"}, []any{sums[0].TenantID, sums[0].TenantName, sums[0].Count, sums[0].Amount.String()})
	require.Equal(t, []any{firstTenant, "First", int64(1), "20.00"}, []any{sums[1].TenantID, sums[1].TenantName, sums[1].Count, sums[1].Amount.String()})
	require.True(t, sums[1].Oldest.Equal(first.CreatedAt))
}

// A hold that has ended by itself counts as such before anybody writes it; then it is written by
// whoever takes the account's lock to debit or to hold.
func TestHoldsThatEndByThemselves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("100.00"), ledger.EventConfirm)
	var holds []ledger.Hold
	for i := range 3 {
		at := b.Clock.Now().Add(time.Duration(i+1) * time.Minute)
		h, err := b.placeHold("30.00", &at)
		require.NoError(t, err)
		holds = append(holds, h)
	}
	stored := func(h ledger.Hold) string {
		return testenv.Value[string](b.Env, `SELECT status FROM holds WHERE id = $1`, h.ID)
	}
	b.Clock.Advance(time.Minute)
	h, err := ledger.FindHold(b.ctx, b.Pool, b.Clock.Now(), b.owner(), holds[0].ID)
	require.NoError(t, err)
	require.Equal(t, ledger.HoldExpired, h.Status)
	require.Equal(t, h.Until, h.EndedAt)
	require.Equal(t, "open", stored(h))
	_, err = b.debit("40.01")
	require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
	_, err = b.debit("40.00")
	require.NoError(t, err)
	require.Equal(t, "expired", stored(h))
	b.holds("0.00 60.00")
	b.Clock.Advance(time.Minute)
	_, err = b.placeHold("30.00", nil)
	require.NoError(t, err)
	require.Equal(t, "expired", stored(holds[1]))
	b.holds("0.00 60.00")
	b.Clock.Advance(time.Minute)
	b.holds("30.00 30.00")
}

// The moves of the state machine are those that the schema allows, and nothing else of a hold
// changes.
func TestHoldTransitionsInTheSchema(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("1000.00"), ledger.EventConfirm)
	states := []ledger.HoldStatus{ledger.HoldOpen, ledger.HoldReleased, ledger.HoldExpired}
	for _, from := range states {
		for _, to := range states {
			if from == to {
				continue
			}
			h, err := b.placeHold("1.00", nil)
			require.NoError(t, err)
			if from != ledger.HoldOpen {
				b.Exec(`UPDATE holds SET status = $2, ended_at = now() WHERE id = $1`, h.ID, from)
			}
			_, err = b.Pool.Exec(b.ctx, `UPDATE holds SET status = $2, ended_at = CASE WHEN $2 = 'open' THEN NULL ELSE now() END WHERE id = $1`, h.ID, to)
			want := slices.ContainsFunc([]ledger.HoldEvent{ledger.EventHoldPlace, ledger.EventHoldRelease, ledger.EventHoldExpire}, func(ev ledger.HoldEvent) bool {
				next, ok := ledger.HoldTransitions.Next(from, ev)
				return ok && next == to
			})
			require.Equal(t, want, err == nil, "%s to %s: %v", from, to, err)
		}
	}
	require.Equal(t, []string{"open"}, ledger.HoldTransitions.From(ledger.EventHoldRelease))
	first, ok := ledger.HoldTransitions.Next(fsm.Start, ledger.EventHoldPlace)
	require.True(t, ok)
	require.Equal(t, ledger.HoldOpen, first)
	h, err := b.placeHold("1.00", nil)
	require.NoError(t, err)
	for _, change := range []string{`SET amount = 2`, `SET reason = 'another'`, `SET until = now() + interval '1 year'`, `SET account_id = id`} {
		_, err := b.Pool.Exec(b.ctx, `UPDATE holds `+change+` WHERE id = $1`, h.ID)
		require.Error(t, err, change)
	}
	_, err = b.Pool.Exec(b.ctx, `DELETE FROM holds`)
	require.Error(t, err)
}

// Any sequence of payments, debits, holds, releases and time: what is available is confirmed money
// less debits and standing holds, it decides what may be held, and a debit takes nothing held.
func TestHoldProperties(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant := b.Tenant()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		run := &books{Env: b.Env, ctx: b.ctx, account: b.Account(tenant, fmt.Sprintf("run-%d", n))}
		var confirmed, provisional, debits int64
		holds := map[uuid.UUID]ledger.Hold{}
		var order []uuid.UUID
		standing := func() (sum int64) {
			for _, h := range holds {
				if h.Until == nil || h.Until.After(b.Clock.Now()) {
					sum += h.Amount.Kobo().Int64()
				}
			}
			return sum
		}
		kobo := rapid.Int64Range(1, 500_00)
		text := func(k int64) string { return money.FromKobo(k).String() }
		rt.Repeat(map[string]func(*rapid.T){
			"credit": func(rt *rapid.T) {
				k := kobo.Draw(rt, "kobo")
				e := run.credit(text(k))
				if rapid.Bool().Draw(rt, "confirmed") {
					run.move(e, ledger.EventConfirm)
					confirmed += k
				} else {
					provisional += k
				}
			},
			"debit": func(rt *rapid.T) {
				k := kobo.Draw(rt, "kobo")
				_, err := run.debit(text(k))
				if (confirmed+provisional-debits-standing() >= k) != (err == nil) {
					rt.Fatalf("debit of %d: %v", k, err)
				}
				if err == nil {
					debits += k
				}
			},
			"hold": func(rt *rapid.T) {
				k := kobo.Draw(rt, "kobo")
				var until *time.Time
				if s := rapid.IntRange(0, 5).Draw(rt, "minutes"); s > 0 {
					until = new(b.Clock.Now().Add(time.Duration(s) * time.Minute))
				}
				h, err := run.placeHold(text(k), until)
				if (confirmed-debits-standing() >= k) != (err == nil) {
					rt.Fatalf("hold of %d: %v", k, err)
				}
				if err == nil {
					holds[h.ID], order = h, append(order, h.ID)
				}
			},
			"release": func(rt *rapid.T) {
				if len(order) == 0 {
					rt.Skip("no hold yet")
				}
				id := rapid.SampledFrom(order).Draw(rt, "hold")
				h, open := holds[id]
				open = open && (h.Until == nil || h.Until.After(b.Clock.Now()))
				_, err := run.releaseHold(id)
				if open != (err == nil) {
					rt.Fatalf("release: %v", err)
				}
				delete(holds, id)
			},
			"time": func(rt *rapid.T) {
				b.Clock.Advance(time.Duration(rapid.IntRange(1, 120).Draw(rt, "seconds")) * time.Second)
			},
			"": func(rt *rapid.T) {
				available, held := run.left()
				if want := confirmed - debits - standing(); available.String() != text(want) || held.String() != text(standing()) {
					rt.Fatalf("available %s, held %s; want %s, %s", available, held, text(want), text(standing()))
				}
			},
		})
	})
	b.verify()
}

// Of 500 settlements and holds at once those go through that are covered together, while holds
// end by themselves; of releases of one hold at once, one does.
func TestHoldsAndDebitsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("100.00"), ledger.EventConfirm)
	stands, err := b.placeHold("10.00", nil)
	require.NoError(t, err)
	soon := b.Clock.Now().Add(time.Minute)
	for range 10 {
		_, err := b.placeHold("2.00", &soon)
		require.NoError(t, err)
	}
	var wg sync.WaitGroup
	amount := func(i int) money.Amount { return money.FromKobo(int64(1+i%7) * 50) }
	errs := make([]error, 500)
	for i := range errs {
		wg.Go(func() {
			switch {
			case i == 100:
				b.Clock.Set(soon)
			case i%2 == 0:
				_, errs[i] = b.debit(amount(i).String())
			default:
				_, errs[i] = b.placeHold(amount(i).String(), nil)
			}
		})
	}
	wg.Wait()
	left := money.Must("90.00")
	for i, err := range errs {
		if i != 100 && err == nil {
			left = left.Sub(amount(i))
		} else if err != nil {
			require.ErrorIs(t, err, ledger.ErrInsufficientFunds)
		}
	}
	available, _ := b.left()
	require.Equal(t, left.String(), available.String())
	require.GreaterOrEqual(t, available.Sign(), 0)
	b.verify()

	released := make([]error, 8)
	for i := range released {
		wg.Go(func() { _, released[i] = b.releaseHold(stands.ID) })
	}
	wg.Wait()
	once := 0
	for _, err := range released {
		if err == nil {
			once++
		} else {
			require.ErrorIs(t, err, ledger.ErrHoldEnded)
		}
	}
	require.Equal(t, 1, once)
	b.holds(left.Add(money.Must("10.00")).String() + " " + b.openHolds())
}

func (b *books) openHolds() string {
	return testenv.Value[string](b.Env, `SELECT coalesce(sum(amount), 0)::numeric(20, 2)::text FROM holds WHERE status = 'open' AND account_id = $1`, b.account)
}

// The verification finds a sum or an end that the open holds do not say.
func TestVerifyFindsHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.move(b.credit("100.00"), ledger.EventConfirm)
	_, err := b.placeHold("10.00", nil)
	require.NoError(t, err)
	for _, wrong := range []string{`held = 9`, `held = NULL`, `held = 10, held_until = now()`} {
		b.Exec(`UPDATE ledger_balances SET `+wrong+` WHERE account_id = $1`, b.account)
		found, err := ledger.Verify(b.ctx, b.Pool)
		require.NoError(t, err)
		require.Len(t, found, 1, wrong)
		require.Equal(t, ledger.CheckHolds, found[0].Check)
		require.Equal(t, b.account.String(), found[0].Subject)
	}
	b.Exec(`UPDATE ledger_balances SET held = 10, held_until = NULL WHERE account_id = $1`, b.account)
	b.verify()
}
