package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/payment"
	"ajo/internal/provider"
	"ajo/internal/testenv"
)

// dense is a bank whose list has many pages for each time, each with one payment.
type dense struct {
	provider.Bank
	pages int
	read  []string // the times that were asked for, with the page
}

func (d *dense) Transactions(_ context.Context, from, to time.Time, cursor string) (provider.Page, error) {
	d.read = append(d.read, from.Format("15:04:05 ")+to.Format("15:04:05 ")+cursor)
	page := 1
	if cursor != "" {
		_, _ = fmt.Sscan(cursor, &page)
	}
	p := provider.Page{Transactions: []provider.Transaction{{ID: fmt.Sprintf("%s-%d", from.Format("15:04"), page)}}}
	if page < d.pages {
		p.Next = fmt.Sprint(page + 1)
	}
	return p, nil
}

// The list around a payment is read once, and only what lies in no list that the run has; of many
// pages, and of many such payments, a bounded number.
func TestListsAroundPaymentsAreBounded(t *testing.T) {
	t.Parallel()
	ctx, at := t.Context(), testenv.Epoch.Truncate(time.Hour)
	bank := &dense{pages: 2}
	r := &comparison{Service: &Service{bank: bank, clock: clock.NewFake(at)}, lease: at.Add(runLease), listed: marks{}}
	read := func(at time.Time) int {
		before := len(bank.read)
		require.NoError(t, r.readAround(ctx, at))
		return len(bank.read) - before
	}
	r.kept = []*slice{newSlice(at, at.Add(10*time.Minute)), newSlice(at.Add(10*time.Minute), at.Add(20*time.Minute))}
	inside := payment.AlikeWithin + time.Second
	require.Zero(t, read(at.Add(10*time.Minute)), "the slices that are kept, as one")
	require.Zero(t, read(at.Add(payment.AlikeWithin)), "from the first moment")
	require.Zero(t, read(at.Add(20*time.Minute).Add(-inside)), "to the last moment")
	require.Equal(t, 2, read(at.Add(20*time.Minute).Add(-inside+1)), "beyond it, both pages")
	hour := at.Format("15:")
	require.Equal(t, []string{hour + "17:00 " + hour + "21:00 ", hour + "17:00 " + hour + "21:00 2"}, bank.read[:2])
	require.True(t, r.isSeen(hour+"17-1") && r.isSeen(hour+"17-2"))
	require.Zero(t, read(at.Add(20*time.Minute).Add(-inside+1)), "once")
	require.Equal(t, 2, read(at.Add(payment.AlikeWithin-1)), "before the first moment")

	bank.pages = maxAroundPages + 1
	day := at.Add(24 * time.Hour)
	require.Equal(t, maxAroundPages, read(day))
	for n := len(r.around); n < maxAround; n++ {
		bank.pages = 1
		require.Equal(t, 1, read(day.Add(time.Duration(n)*time.Hour)))
	}
	require.Zero(t, read(day.Add(-time.Hour)), "enough lists for one run")
	require.Len(t, r.around, maxAround)
}
