package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/ledger"
)

// What is exported from a time on begins with the balance that stood then; the whole begins with
// nothing.
func TestExportFromATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.Account(b.tenant, "shop")
	b.credit(id, "10.00")
	b.Clock.Advance(time.Hour)
	from := b.Clock.Now()
	b.credit(id, "5.00")
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

// amounts are those of lines.
func amounts(lines []ledger.Line) string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Entry.Amount.String())
	}
	return strings.Join(all, " ")
}
