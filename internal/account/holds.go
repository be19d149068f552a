package account

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/ledger"
)

const maxHoldReason = 140 // characters

// Refusals of a hold.
var (
	errReasonNeeded = errs.New(errs.Invalid, "reason is required")
	errReason       = errs.New(errs.Invalid, "reason must be at most 140 characters, without control characters")
	errUntil        = errs.New(errs.Invalid, "until must be in the future")
)

// NewHold asks for a hold.
type NewHold struct {
	Amount   string // decimal naira, as the client wrote it
	Reason   string
	Until    *time.Time     // nil: until it is released
	By       *audit.By      // the member who asks for it; nil: an API key, whose holds are not in the audit log
	Standing audit.Standing // of that key, checked behind the balance's lock
}

// holdShown is what the audit log keeps of a hold.
type holdShown struct {
	AccountRef string `json:"accountRef"`
	Amount     string `json:"amount"`
	Reason     string `json:"reason"`
}

// writeHold records that a hold was placed or released. The standing of who did it is checked as
// the line is written ([audit.By.While]).
func writeHold(ctx context.Context, tx pg.Tx, now time.Time, tenantID uuid.UUID, by audit.By, action string, h ledger.Hold) error {
	return audit.Write(ctx, tx, now, by.Entry(action, "hold:"+h.ID.String(), audit.Change{After: holdShown{h.AccountRef, h.Amount.String(), h.Reason}}).Of(tenantID))
}

func (n *NewHold) check(now time.Time) (money.Amount, error) {
	amount, err := parseAmount(n.Amount)
	switch {
	case err != nil:
		return amount, err
	case strings.TrimSpace(n.Reason) == "":
		return amount, errReasonNeeded
	case !errs.Plain(n.Reason, maxHoldReason):
		return amount, errReason
	case n.Until != nil && !n.Until.After(now):
		return amount, errUntil
	}
	return amount, nil
}

// PlaceHold sets money of an account aside, as much as is available at most: the hold, the sum on
// the balance and the kept answer are one transaction, under the lock of the account's balance.
// While payouts are frozen it may be placed all the same: it moves nothing. [ErrNotFound],
// ledger.ErrInsufficientFunds, refusals that name the field, and those of package idempotency.
func (s *Service) PlaceHold(ctx context.Context, tenantID uuid.UUID, ref string, n NewHold, key idempotency.Request) (idempotency.Result, error) {
	now := s.Clock.Now()
	if kept, err := idempotency.Find(ctx, s.Pool, now, key); err != nil || kept != nil {
		return idempotency.Repeated(kept), err // even when its until has passed by now
	}
	amount, err := n.check(now)
	if err != nil {
		return idempotency.Result{}, err
	}
	return idempotency.Once(ctx, s.Pool, s.Clock, http.StatusCreated, key, func(tx pg.Tx, now time.Time) (any, error) {
		a, err := Find(ctx, tx, tenantID, ref)
		if err != nil {
			return nil, err
		}
		h, err := ledger.PlaceHold(ctx, tx, now, ledger.NewHold{AccountID: a.ID, Amount: amount, Reason: n.Reason, Until: n.Until, Provisional: s.Provisional})
		if err != nil {
			return nil, err
		}
		if n.By == nil {
			return h, n.Standing.Check(ctx, tx)
		}
		return h, writeHold(ctx, tx, now, tenantID, *n.By, "hold.place", h)
	})
}

// ReleaseHold ends a hold. A settlement that waits for the money goes on at once: its item of work
// is made due after the commit, and what a death leaves behind looks again by its own schedule. The
// audit log has it, also by an API key: nothing else says who let the money go. The standing of by
// is checked behind the balance's lock. ledger.ErrHoldNotFound, ledger.ErrHoldEnded,
// ledger.ErrHoldOfLimit, and the refusals of package idempotency.
func (s *Service) ReleaseHold(ctx context.Context, tenantID, id uuid.UUID, by audit.By, key idempotency.Request) (idempotency.Result, error) {
	return idempotency.Once(ctx, s.Pool, s.Clock, http.StatusOK, key, func(tx pg.Tx, now time.Time) (any, error) {
		h, err := ledger.ReleaseHold(ctx, tx, now, tenantID, id)
		if err != nil {
			return nil, err
		}
		tx.AfterCommit(func(ctx context.Context) { _ = freeze.Resume(ctx, s.Pool, now, freeze.Account, h.AccountID) })
		return h, writeHold(ctx, tx, now, tenantID, by, "hold.release", h)
	})
}

// ReleaseHoldByHand ends any tenant's hold, also one of a limit, which the tenant cannot release.
// For operators. ledger.ErrHoldNotFound, ledger.ErrHoldEnded; freeze.ErrNotResumed, with the hold,
// if it is released, and the payouts that wait for the money were not made due.
func ReleaseHoldByHand(ctx context.Context, pool *pg.Pool, now time.Time, id uuid.UUID, by audit.By) (h ledger.Hold, err error) {
	err = pg.InTx(ctx, pool, func(tx pg.Tx) error {
		if h, err = ledger.ReleaseAnyHold(ctx, tx, now, id); err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("accounts.release", "account:"+h.AccountID.String(), struct {
			Hold   uuid.UUID
			Amount string
			Held   string
		}{h.ID, h.Amount.String(), h.Reason}))
	})
	if err != nil {
		return h, err
	}
	return h, freeze.Resume(ctx, pool, now, freeze.Account, h.AccountID)
}

// Hold returns a tenant's hold. ledger.ErrHoldNotFound.
func (s *Service) Hold(ctx context.Context, tenantID, id uuid.UUID) (ledger.Hold, error) {
	return ledger.FindHold(ctx, s.Pool, s.Clock.Now(), tenantID, id)
}

// Holds returns a page of an account's holds, newest first. [ErrNotFound], ledger.ErrHoldStatus, or
// [page.ErrCursor].
func (s *Service) Holds(ctx context.Context, tenantID uuid.UUID, ref string, status ledger.HoldStatus, r page.Request) ([]ledger.Hold, page.Info, error) {
	q := pg.Reader(ctx, s.Pool)
	a, err := Find(ctx, q, tenantID, ref)
	if err != nil {
		return nil, page.Info{}, err
	}
	return ledger.ReadHolds(ctx, q, s.Clock.Now(), tenantID, a.ID, status, r)
}
