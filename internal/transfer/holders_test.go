package transfer

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/provider"
)

// What the bank said of a holder is given again for two minutes. Where there is no room for more,
// old answers go first, and new ones only where all are new.
func TestHoldersMakeRoom(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var h holders
	put := func(i int, at time.Time) {
		h.put("058", provider.Holder{AccountNumber: fmt.Sprintf("%010d", i), AccountName: fmt.Sprint("holder ", i)}, at)
	}
	known := func(i int, at time.Time) bool {
		holder, ok := h.find("058", fmt.Sprintf("%010d", i), at)
		require.True(t, !ok || holder.AccountName == fmt.Sprint("holder ", i), "%d is %s", i, holder.AccountName)
		return ok
	}
	put(0, now)
	require.True(t, known(0, now.Add(holderFresh-1)))
	require.False(t, known(0, now.Add(holderFresh)), "too old to be given again")
	require.False(t, known(1, now), "never asked for")
	_, ok := h.find("044", "0000000000", now)
	require.False(t, ok, "the same number at another bank")

	later := now.Add(time.Minute)
	for i := 1; i < maxHolders; i++ {
		put(i, later)
	}
	require.True(t, known(0, later) && known(1, later), "there was room for all")
	put(maxHolders, now.Add(holderFresh))
	require.True(t, known(1, later) && known(maxHolders-1, later) && known(maxHolders, later), "the old one goes alone")
	require.Len(t, h.known, maxHolders)
	put(maxHolders+1, later)
	require.True(t, known(maxHolders+1, later))
	require.Len(t, h.known, 1, "all were new")
}
