// Package audit owns the record of what people did by hand: operators, who say why, and tenants,
// by a session or an API key, from an address.
//
// What always holds: an entry is written in the transaction of the change that it records, so that
// neither stands without the other; it names who did it; the schema refuses to change or remove
// one; no entry has a secret.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
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
	ErrActor  = errs.New(errs.Invalid, "the actor must be a name without control characters")
	ErrReason = errs.New(errs.Invalid, "a reason is required: one line of at most 500 characters")
)

// By says who does something by hand, and why. Every use case that a person starts takes one.
type By struct {
	Actor  string // "cli:<os user>" for the command line, "console:<name>" for the console
	Reason string // one line, kept for good; a tenant need not give one

	own    bool       // a tenant does it
	from   netip.Addr // from where
	stands Standing
}

// Standing returns an error if the credential of a request has ended since it came, for a use case
// that may wait for others or for a lock, and checks it after that. Nil: that is not checked.
type Standing func(context.Context, pg.Querier) error

// Check returns what s does.
func (s Standing) Check(ctx context.Context, q pg.Querier) error {
	if s == nil {
		return nil
	}
	return s(ctx, q)
}

// While is b as long as stands returns nil when the entry is written: whoever waits for a lock may
// have lost the right to what is waited for.
func (b By) While(stands Standing) By {
	b.stands = stands
	return b
}

// Stands is the check of [By.While], for a change that writes no entry.
func (b By) Stands(ctx context.Context, q pg.Querier) error { return b.stands.Check(ctx, q) }

// Session is a tenant's By, whose session was opened with the e-mail, at the address.
func Session(email string, from netip.Addr) By {
	return By{Actor: "session:" + email, own: true, from: from}
}

// Key is a tenant's By, whose program used the API key, at the address.
func Key(id uuid.UUID, from netip.Addr) By {
	return By{Actor: "key:" + id.String(), own: true, from: from}
}

// Console is the By of an operator who works in the console, at the address.
func Console(name, reason string, from netip.Addr) By {
	return By{Actor: "console:" + name, Reason: reason, from: from}
}

// Own reports whether a tenant does it, and not an operator.
func (b By) Own() bool { return b.own }

// Unknown is a By for what was tried without a credential, at the address.
func Unknown(from netip.Addr) By { return By{Actor: "unknown", own: true, from: from} }

// From is the address of a By as text; "" when it is not known.
func (b By) From() string {
	if !b.from.IsValid() {
		return ""
	}
	return b.from.WithZone("").String()
}

// Check refuses a By that could not be recorded, with [ErrActor] or [ErrReason]; [Write] does the
// same.
func (b By) Check() error {
	switch {
	case strings.TrimSpace(b.Actor) == "" || !utf8.ValidString(b.Actor) || strings.ContainsFunc(b.Actor, unicode.IsControl):
		return ErrActor
	case b.own && b.Reason == "":
		return nil
	case strings.TrimSpace(b.Reason) == "" || !errs.Plain(b.Reason, maxReason):
		return ErrReason
	}
	return nil
}

// Entry makes the entry of what b did: action in the words of the command ("review.confirm"),
// target as "kind:id", and detail, a struct of what the row alone would not show later.
func (b By) Entry(action, target string, detail any) Entry {
	return Entry{By: b, Action: action, Target: target, Detail: detail}
}

// Entry is one thing done by hand.
type Entry struct {
	By
	Action string
	Target string
	Detail any       // kept as JSON; nil is an empty object. Never a secret.
	Tenant uuid.UUID // who sees it, beside operators; uuid.Nil: nobody
}

// Of is the entry of something that was done by the tenant, or to it: the tenant sees who, what and
// when, and the before and after of the detail.
func (e Entry) Of(tenant uuid.UUID) Entry {
	e.Tenant = tenant
	return e
}

// Change is a detail that the tenant sees: what was there before, and what is there now.
type Change struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after,omitempty"`
}

// Write records an entry in the transaction of what was done. [ErrActor], [ErrReason] and the check
// of [By.While] refuse it, and so the change.
func Write(ctx context.Context, tx pg.Tx, now time.Time, e Entry) error {
	if err := e.Check(); err != nil {
		return err
	}
	if err := e.stands.Check(ctx, tx); err != nil {
		return err
	}
	detail := []byte(`{}`)
	if e.Detail != nil {
		var err error
		if detail, err = json.Marshal(e.Detail); err != nil {
			return fmt.Errorf("audit detail of %s: %w", e.Action, err)
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO audit_log (id, at, actor, action, target, reason, detail, tenant_id, address)
		VALUES ($1, $2, $3, $4, $5, $6, $7, nullif($8, '00000000-0000-0000-0000-000000000000'::uuid), nullif($9, '')::inet)`,
		uuid.Must(uuid.NewV7()), now, e.Actor, e.Action, e.Target, strings.TrimSpace(e.Reason), detail, e.Tenant, e.From())
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
