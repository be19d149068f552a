package transfer

import (
	"sync"
	"time"

	"ajo/internal/provider"
)

const (
	// holderFresh is how long the bank's answer about an account's holder is reused: long enough to
	// look up a name and order the payout. Before it pays, the worker asks again.
	holderFresh = 2 * time.Minute
	maxHolders  = 10_000
)

// holders are the answers of the last look-ups.
type holders struct {
	mu    sync.Mutex
	known map[[2]string]heldName
}

type heldName struct {
	provider.Holder
	until time.Time
}

func (h *holders) find(bankCode, accountNumber string, now time.Time) (provider.Holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, ok := h.known[[2]string{bankCode, accountNumber}]
	return n.Holder, ok && now.Before(n.until)
}

// put keeps an answer. If there is no room, it drops the expired ones, or if there are none, all.
func (h *holders) put(bankCode string, holder provider.Holder, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) >= maxHolders {
		for k, n := range h.known {
			if !now.Before(n.until) {
				delete(h.known, k)
			}
		}
	}
	if h.known == nil || len(h.known) >= maxHolders {
		h.known = map[[2]string]heldName{}
	}
	h.known[[2]string{bankCode, holder.AccountNumber}] = heldName{holder, now.Add(holderFresh)}
}
