package reconcile_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/reconcile"
	"ajo/internal/testenv"
)

// unread are the parts of the bank's list that are open as not read.
func (b *bundle) unread() []reconcile.Exception {
	b.T.Helper()
	return testenv.Value[[]reconcile.Exception](b.Env, `SELECT coalesce(jsonb_agg(exception ORDER BY ref), '[]') FROM reconcile_items WHERE exception ->> 'kind' = 'not_read'`)
}

// A minute that the bank cannot list is named after an hour of trying, and does not keep the runs
// from all that is listed before and after it.
func TestAPartOfTheListThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	paid := b.minutely(15)
	broken := testenv.Epoch.Add(7 * time.Minute) // the minute that the bank cannot list, nor what has a part of it
	_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), BeforeTransactions: func(from, to time.Time) error {
		if !broken.IsZero() && from.Before(broken.Add(time.Minute)) && to.After(broken) {
			return errors.New("500 of this minute")
		}
		return nil
	}})
	b.Clock.Advance(5 * time.Minute)
	failing := 0
	for ; ; failing++ {
		r, ran, _, err := b.svc.RunDue(b.ctx, 15*time.Minute, 2*time.Hour)
		b.postAll(r.ToPost)
		if err == nil && ran {
			break
		}
		require.ErrorContains(t, err, "500 of this minute")
		require.Empty(t, b.unread(), "not yet")
		require.Less(t, failing, 61, "for an hour")
		b.Clock.Advance(time.Minute)
	}
	require.Equal(t, 60, failing)
	parts := b.unread()
	require.Len(t, parts, 1)
	require.False(t, parts[0].From.After(broken) || parts[0].To.Before(broken.Add(time.Minute)), "%v", parts)
	require.LessOrEqual(t, parts[0].To.Sub(*parts[0].From), 2*time.Minute)
	require.Contains(t, parts[0].Detail, "500 of this minute")
	for _, txn := range paid {
		inside := !txn.Time.Before(*parts[0].From) && txn.Time.Before(*parts[0].To)
		require.Equal(t, !inside, testenv.Value[bool](b.Env, `SELECT EXISTS (SELECT FROM inbound_events WHERE provider_txn_ref = $1)`, txn.ID), txn.Time)
	}
	require.Equal(t, 1, b.due1().Counts[reconcile.NotRead], "the next windows are read, and still say so")

	// So does the run of the day, three days later; once the bank can list that minute, it is read.
	b.Clock.Advance(3 * 24 * time.Hour)
	b.due()
	daily := func() (reconcile.Report, error) {
		r, ran, err := b.svc.RunDaily(b.ctx, 72*time.Hour)
		require.True(t, ran)
		return r, err
	}
	_, err := daily()
	require.ErrorContains(t, err, "500 of this minute")
	b.Clock.Advance(time.Hour)
	r, err := daily()
	require.NoError(t, err)
	require.Positive(t, r.Counts[reconcile.NotRead])
	broken = time.Time{}
	r, err = b.svc.Run(b.ctx, testenv.Epoch, testenv.Epoch.Add(30*time.Minute))
	require.NoError(t, err)
	require.Empty(t, r.Counts[reconcile.NotRead])
	require.Empty(t, b.unread())
	require.Equal(t, len(paid), testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
}

// A bank that lists nothing at all is away: nothing is passed over, however long that takes.
func TestABankThatListsNothingIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.due()
	paid := b.minutely(15)
	c := b.reading()
	c.fails = testenv.Epoch
	b.Clock.Advance(5 * time.Minute)
	for range 12 {
		require.False(t, b.runs())
		b.Clock.Advance(30 * time.Minute)
	}
	require.Empty(t, b.unread())
	c.fails = time.Time{}
	b.due()
	require.Empty(t, b.unread())
	require.Equal(t, len(paid), testenv.Value[int](b.Env, `SELECT count(*) FROM inbound_events`))
}

// A payout whose reference or id cannot be stored, as somebody else may have given it, is named and
// holds up nothing.
func TestAPayoutThatCannotBeNamed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*provider.Payout){
		"NUL in the reference":  func(p *provider.Payout) { p.Ref = "AB\x00C" },
		"a reference of 10 kB":  func(p *provider.Payout) { p.Ref = long(10_000) },
		"an id of 10 kB, twice": func(p *provider.Payout) { p.ID = long(10_000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fund("1000.00")
			b.payAtBank("AJO-odd", "100.00")
			b.inBooks("AJO-odd", "success", "100.00", "0")
			silent := b.paySilently("5000.00")
			_, b.svc = b.servicesWith(testenv.BankWith{Bank: b.client(), AfterTransactions: func(page *provider.Page) {
				for _, p := range page.Payouts {
					spoil(&p)
					p.Amount = money.Must("70.00")
					page.Payouts = append(page.Payouts, p)
				}
			}})
			r := b.lastHour()
			require.Equal(t, 1, r.Counts[reconcile.Unreadable], "%v", said(r))
			require.Equal(t, 1, r.Counts[reconcile.MissingEvent], silent.ID)
			require.Equal(t, 1, r.Bank.Unreadable)
			for _, x := range r.Exceptions {
				require.Less(t, len(x.Detail)+len(x.ProviderTxnRef)+len(x.MerchantTxRef), 1000)
			}
		})
	}
}

// long is a text that is not stored much shorter than it is.
func long(n int) string {
	var s strings.Builder
	for s.Len() < n {
		s.WriteString(uuid.NewString())
	}
	return s.String()[:n]
}
