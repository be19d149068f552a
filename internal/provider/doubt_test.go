package provider_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/provider"
)

// emptied is a bank whose index may be empty; known is the one record that it otherwise has.
type emptied struct {
	provider.Bank
	empty atomic.Bool
	asked atomic.Int64 // for the known record
	down  error
}

const known = "known"

func (b *emptied) find(ref string) error {
	if ref == known {
		b.asked.Add(1)
	}
	switch {
	case b.down != nil:
		return b.down
	case ref == known && !b.empty.Load():
		return nil
	}
	return provider.ErrUnknown
}

func (b *emptied) Transaction(_ context.Context, id string) (provider.Transaction, error) {
	return provider.Transaction{ID: id}, b.find(id)
}

func (b *emptied) Payout(_ context.Context, ref string) (provider.Payout, error) {
	return provider.Payout{Ref: ref}, b.find(ref)
}

func (b *emptied) FindAccount(_ context.Context, ref string) (provider.Account, error) {
	return provider.Account{Ref: ref}, b.find(ref)
}

func (b *emptied) CloseAccount(_ context.Context, ref string) error { return b.find(ref) }

func (b *emptied) Lookup(_ context.Context, _, number string) (provider.Holder, error) {
	if err := b.find(number); errors.Is(err, provider.ErrUnknown) {
		return provider.Holder{}, &provider.Rejection{Code: "404"}
	}
	return provider.Holder{AccountNumber: number}, b.down
}

// Pay refuses each payout that it does not find.
func (b *emptied) Pay(_ context.Context, p provider.NewPayout) (provider.Payout, error) {
	if err := b.find(p.Ref); errors.Is(err, provider.ErrUnknown) {
		return provider.Payout{}, &provider.Rejection{Code: "02"}
	}
	return provider.Payout{Ref: p.Ref}, b.down
}

func doubting(b *emptied, ref string, c clock.Clock) (*provider.Doubting, *atomic.Int64) {
	var doubted atomic.Int64
	find := func(context.Context) (string, error) { return ref, nil }
	return provider.Doubt(provider.DoubtOptions{
		Bank: b, Clock: c, Log: slog.New(slog.DiscardHandler), Observe: func(string) { doubted.Add(1) },
		Known: provider.KnownRecords{
			Transaction: find, Payout: find, Account: find,
			Destination: func(context.Context) (provider.Destination, error) {
				return provider.Destination{BankCode: "058", AccountNumber: ref}, nil
			},
		},
	}), &doubted
}

// Every question that can be answered "not found", and the submission whose refusal rests on one.
var questions = map[string]func(*provider.Doubting, string) error{
	"transaction": func(d *provider.Doubting, ref string) error {
		_, err := d.Transaction(context.Background(), ref)
		return err
	},
	"payout": func(d *provider.Doubting, ref string) error {
		_, err := d.Payout(context.Background(), ref)
		return err
	},
	"submission": func(d *provider.Doubting, ref string) error {
		if ref == known { // one that is taken proves nothing of what the bank finds
			_, err := d.Payout(context.Background(), ref)
			return err
		}
		_, err := d.Pay(context.Background(), provider.NewPayout{Ref: ref})
		return err
	},
	"find account": func(d *provider.Doubting, ref string) error {
		_, err := d.FindAccount(context.Background(), ref)
		return err
	},
	"close account": func(d *provider.Doubting, ref string) error { return d.CloseAccount(context.Background(), ref) },
	"lookup": func(d *provider.Doubting, ref string) error {
		_, err := d.Lookup(context.Background(), "058", ref)
		return err
	},
}

func believed(err error) bool {
	var refused *provider.Rejection
	return errors.Is(err, provider.ErrUnknown) || errors.As(err, &refused)
}

// The fifth "not found" in a row is believed only if the bank still finds what it certainly has.
func TestManyNotFoundAreNotBelieved(t *testing.T) {
	t.Parallel()
	for name, ask := range questions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &emptied{}
			now := clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
			d, doubted := doubting(b, known, now)
			// a bank that works is believed, and asked for what it has once for five
			for i := range 12 {
				require.True(t, believed(ask(d, fmt.Sprint(i))))
			}
			require.Equal(t, int64(2), b.asked.Load())
			require.Zero(t, doubted.Load())

			require.NoError(t, ask(d, known)) // and the count begins anew
			b.empty.Store(true)
			for i := range 4 {
				require.True(t, believed(ask(d, fmt.Sprint(i))))
			}
			asked := b.asked.Load()
			for i := range 20 {
				err := ask(d, fmt.Sprint(i))
				require.ErrorIs(t, err, provider.ErrDoubted)
				require.False(t, believed(err), "%v", err)
			}
			require.Equal(t, int64(1), b.asked.Load()-asked, "it is not asked again at once")
			require.Equal(t, int64(20), doubted.Load())

			b.empty.Store(false)
			require.ErrorIs(t, ask(d, "x"), provider.ErrDoubted)
			now.Advance(10 * time.Second)
			require.True(t, believed(ask(d, "x")), "its index is back")
			require.True(t, believed(ask(d, "x")))
		})
	}
}

// A service whose first payouts the bank has never seen has no payout to ask for. The payments that
// they are made of are records too: while the bank finds those, it is believed; and where an
// operator put the money in, so is an account that is open.
func TestFirstPayoutsAreAskedAboutBesideAPayment(t *testing.T) {
	t.Parallel()
	b := &emptied{}
	payment, account := known, ""
	now := clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
	d := provider.Doubt(provider.DoubtOptions{Bank: b, Clock: now, Log: slog.New(slog.DiscardHandler), Known: provider.KnownRecords{
		Transaction: func(context.Context) (string, error) { return payment, nil },
		Payout:      func(context.Context) (string, error) { return "", nil },
		Account:     func(context.Context) (string, error) { return account, nil },
	}})
	ask := func() error { return questions["payout"](d, "x") }
	for range 12 {
		require.True(t, believed(ask()))
	}
	b.empty.Store(true)
	for range 10 {
		_ = ask()
	}
	require.ErrorContains(t, ask(), "the known record "+known)
	b.empty.Store(false)
	now.Advance(10 * time.Second)
	require.True(t, believed(ask()))
	payment, account = "", known
	for range 12 {
		require.True(t, believed(ask()))
	}
	account = ""
	for range 4 {
		_ = ask()
	}
	for range 2 {
		require.ErrorContains(t, ask(), "no record is known", "and it says so each time")
	}
}

// Before the first payout, the account that a look-up has found serves as the known record.
func TestALookUpThatFoundSomebodyIsAKnownRecord(t *testing.T) {
	t.Parallel()
	b := &emptied{}
	now := clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC))
	d, doubted := doubting(b, "", now)
	look := func(number string) error { return questions["lookup"](d, number) }
	require.NoError(t, look(known))
	for range 12 {
		require.True(t, believed(look("x")))
	}
	require.Equal(t, int64(3), b.asked.Load(), "it is asked for once for five")
	require.Zero(t, doubted.Load())

	b.empty.Store(true)
	for range 2 {
		require.True(t, believed(look("x")))
	}
	for range 3 {
		require.ErrorIs(t, look("x"), provider.ErrDoubted)
	}
	b.empty.Store(false)
	now.Advance(10 * time.Second)
	require.True(t, believed(look("x")))
}

// misnaming is a bank that names the holder of another account.
type misnaming struct{ *emptied }

func (b misnaming) Lookup(ctx context.Context, bankCode, number string) (provider.Holder, error) {
	h, err := b.emptied.Lookup(ctx, bankCode, number)
	h.AccountNumber += "9"
	return h, err
}

// The holder of another account does not show that the bank has this one.
func TestAnotherAccountsHolderIsNoKnownRecord(t *testing.T) {
	t.Parallel()
	d := provider.Doubt(provider.DoubtOptions{
		Bank: misnaming{&emptied{}}, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		Known: provider.KnownRecords{Destination: func(context.Context) (provider.Destination, error) { return provider.Destination{}, nil }},
	})
	look := func(number string) error { return questions["lookup"](d, number) }
	require.NoError(t, look(known))
	for range 4 {
		require.True(t, believed(look("x")))
	}
	require.ErrorContains(t, look("x"), "no record is known")
}

// No answer about the known record is no proof either, and an error is passed on as it is and
// counts for nothing.
func TestNoAnswerIsNoProof(t *testing.T) {
	t.Parallel()
	for name, ask := range questions {
		b := &emptied{}
		d, _ := doubting(b, "", clock.System)
		for range 4 {
			require.True(t, believed(ask(d, "x")), name)
		}
		require.ErrorIs(t, ask(d, "x"), provider.ErrDoubted, "%s: there is nothing to prove it by", name)
		b.down = errors.New("down")
		require.Equal(t, b.down, ask(d, "x"), name)
		b.down = nil
		require.NoError(t, ask(d, known))
		require.True(t, believed(ask(d, "x")), name)
	}
}

// crowded is a bank at which no tenant's look-up of the known record has a turn, and perhaps the
// service's own has none either.
type crowded struct {
	emptied
	none atomic.Bool
}

func (b *crowded) Lookup(ctx context.Context, bankCode, number string) (provider.Holder, error) {
	if number == known && (b.none.Load() || provider.TenantOf(ctx) != uuid.Nil) {
		return provider.Holder{}, fmt.Errorf("not sent: %w", provider.ErrBusy)
	}
	return b.emptied.Lookup(ctx, bankCode, number)
}

// The known record is asked for by the service itself, so a tenant whose look-ups fill its line
// raises no doubt. A question that had no turn was not asked, and raises none either.
func TestKnownRecordIsTheServicesOwnQuestion(t *testing.T) {
	t.Parallel()
	b := &crowded{}
	var doubted atomic.Int64
	d := provider.Doubt(provider.DoubtOptions{
		Bank: b, Clock: clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)), Log: slog.New(slog.DiscardHandler),
		Observe: func(string) { doubted.Add(1) },
		Known: provider.KnownRecords{Destination: func(context.Context) (provider.Destination, error) {
			return provider.Destination{BankCode: "058", AccountNumber: known}, nil
		}},
	})
	ctx := provider.ForTenant(t.Context(), uuid.New())
	look := func() error {
		_, err := d.Lookup(ctx, "058", "x")
		return err
	}
	for range 12 {
		err := look()
		require.True(t, believed(err), "%v", err)
	}
	require.Equal(t, int64(2), b.asked.Load())

	b.none.Store(true)
	for range 2 {
		require.True(t, believed(look()), "four in a row are believed")
	}
	for range 3 {
		err := look()
		require.ErrorIs(t, err, provider.ErrBusy)
		require.NotErrorIs(t, err, provider.ErrDoubted)
		require.False(t, believed(err), "%v", err)
	}
	require.Zero(t, doubted.Load())
	b.none.Store(false)
	require.True(t, believed(look()), "it is asked for as soon as there is a turn")
}
