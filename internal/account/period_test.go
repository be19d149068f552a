package account_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

// What is exported from a time on begins with the balance that stood then; the whole begins with
// nothing.
func TestExportFromATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Account(b.tenant, "shop")
	b.Credit(id, "10.00")
	b.Clock.Advance(time.Hour)
	from := b.Clock.Now()
	b.Credit(id, "5.00")
	for want, f := range map[[4]string]ledger.Filter{
		{"0.00", "15.00", "0.00", "10.00 5.00"}: {},
		{"10.00", "15.00", "10.00", "5.00"}:     {From: from},
		{"15.00", "15.00", "15.00", ""}:         {From: from.Add(time.Microsecond)},
		{"0.00", "10.00", "0.00", "10.00"}:      {To: from},
	} {
		x, err := b.svc.Export(b.ctx, b.tenant, "shop", f, 5)
		require.NoError(t, err)
		require.Equal(t, want, [4]string{x.Opening.String(), x.Closing.String(), x.Standing.String(), amounts(x.Lines)}, "%+v", f)
		a, opening, lines, err := b.svc.Lines(b.ctx, b.tenant, "shop", f, 5)
		require.NoError(t, err)
		var read []ledger.Line
		for l, err := range lines {
			require.NoError(t, err)
			read = append(read, l)
		}
		require.Equal(t, id, a.ID)
		require.Equal(t, []string{want[0], want[3]}, []string{opening.String(), amounts(read)}, "%+v", f)
	}
	_, _, _, err := b.svc.Lines(b.ctx, b.tenant, uuid.NewString(), ledger.Filter{}, 5)
	require.ErrorIs(t, err, account.ErrNotFound)
}

// A file of a period that is over has what was still being posted into it when it was asked for.
func TestFilesWaitForTheEndOfTheirPeriod(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Account(b.tenant, "shop")
	b.Clock.Set(time.Now())
	over := ledger.Filter{To: b.Clock.Now().Add(time.Microsecond)}
	lasts := ledger.Filter{To: b.Clock.Now().Add(time.Hour)}
	files := map[string]func(context.Context, ledger.Filter) (int, error){
		"of an account": func(ctx context.Context, f ledger.Filter) (int, error) {
			x, err := b.svc.Export(ctx, b.tenant, "shop", f, 5)
			return len(x.Lines), err
		},
		"of all": func(ctx context.Context, f ledger.Filter) (int, error) {
			x, _, err := b.svc.Exports(ctx, b.tenant, f, 5)
			return len(x), err
		},
		"CSV": func(ctx context.Context, f ledger.Filter) (n int, err error) {
			_, _, lines, err := b.svc.Lines(ctx, b.tenant, "shop", f, 5)
			if err != nil {
				return 0, err
			}
			for _, err := range lines {
				n++
				require.NoError(t, err)
			}
			return n, nil
		},
	}
	require.NoError(t, pg.InTx(b.ctx, b.Pool, func(tx pg.Tx) error {
		_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), []ledger.Posting{{AccountID: id, Amount: money.Must("10.00"), TransactionGroupID: uuid.New()}})
		for name, read := range files {
			soon, cancel := context.WithTimeout(b.ctx, 100*time.Millisecond)
			_, refused := read(soon, over)
			cancel()
			require.ErrorContains(t, refused, "entries of this period are still being posted: try again", name)
			n, ended := read(b.ctx, lasts)
			require.NoError(t, ended)
			require.Zero(t, n, "it is not over")
		}
		return err
	}))
	for name, read := range files {
		n, err := read(b.ctx, over)
		require.NoError(t, err)
		require.Equal(t, 1, n, name)
	}
}

// amounts are those of lines.
func amounts(lines []ledger.Line) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Entry.Amount.String())
	}
	return strings.Join(all, " ")
}
