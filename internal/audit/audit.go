// Package audit owns the record of what operators did by hand, and why.
//
// What always holds: an entry is written in the transaction of the change that it records, so that
// neither stands without the other; it names who did it and gives a reason; the schema refuses to
// change or remove one.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

const maxReason = 500 // characters

// Refusals of an entry.
var (
	ErrActor  = errs.New(errs.Invalid, "it must be known who does this")
	ErrReason = errs.New(errs.Invalid, "a reason is required: one line of at most 500 characters")
)

// By says who does something by hand, and why. Every use case that a person starts takes one.
type By struct {
	Actor  string // "cli:<os user>" for the command line
	Reason string // one line, kept for good
}

// Check refuses a By that could not be recorded, with [ErrActor] or [ErrReason]; [Write] does the
// same.
func (b By) Check() error {
	switch {
	case strings.TrimSpace(b.Actor) == "" || !utf8.ValidString(b.Actor) || strings.ContainsFunc(b.Actor, unicode.IsControl):
		return ErrActor
	case strings.TrimSpace(b.Reason) == "" || utf8.RuneCountInString(b.Reason) > maxReason,
		!utf8.ValidString(b.Reason), strings.ContainsFunc(b.Reason, unicode.IsControl):
		return ErrReason
	}
	return nil
}

// Entry makes the entry of what b did: action in the words of the command ("review.confirm"),
// target as "kind:id", and detail, a struct of what the row alone would not show later.
func (b By) Entry(action, target string, detail any) Entry {
	return Entry{Actor: b.Actor, Action: action, Target: target, Reason: b.Reason, Detail: detail}
}

// Entry is one thing done by hand.
type Entry struct {
	Actor  string
	Action string
	Target string
	Reason string
	Detail any // kept as JSON; nil is an empty object. Never a secret.
}

// Write records an entry in the transaction of what was done. [ErrActor] and [ErrReason] refuse it,
// and so the change.
func Write(ctx context.Context, tx pg.Tx, now time.Time, e Entry) error {
	if err := (By{Actor: e.Actor, Reason: e.Reason}).Check(); err != nil {
		return err
	}
	detail := []byte(`{}`)
	if e.Detail != nil {
		var err error
		if detail, err = json.Marshal(e.Detail); err != nil {
			return fmt.Errorf("audit detail of %s: %w", e.Action, err)
		}
	}
	_, err := tx.Exec(ctx, `INSERT INTO audit_log (id, at, actor, action, target, reason, detail) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		uuid.Must(uuid.NewV7()), now, e.Actor, e.Action, e.Target, strings.TrimSpace(e.Reason), detail)
	return err
}

// Record is an entry as it was kept.
type Record struct {
	ID     uuid.UUID
	At     time.Time
	Actor  string
	Action string
	Target string
	Reason string
	Detail json.RawMessage
}

// Filter narrows a list; empty fields do not.
type Filter struct {
	Action string
	Target string
}

// List returns a page of the record, newest first. A bad cursor is [page.ErrCursor].
func List(ctx context.Context, q pg.Querier, f Filter, r page.Request) ([]Record, page.Info, error) {
	list := pg.List[Record]{Name: page.Audit, ID: func(e Record) uuid.UUID { return e.ID }, Row: pgx.RowToStructByPos[Record]}
	return list.Filtered(ctx, q, r, `audit_log WHERE true`, `
		SELECT id, at, actor, action, target, reason, detail FROM audit_log
		WHERE id < @before AND id >= @floor AND (@action = '' OR action = @action) AND (@target = '' OR target = @target)
		ORDER BY id DESC LIMIT @limit`, pgx.NamedArgs{"action": f.Action, "target": f.Target})
}
