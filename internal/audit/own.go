package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// Bounds of what a tenant asks for. maxLines is the longest file.
const (
	maxLines  = 50_000
	maxFilter = 300 // characters
)

// Refusals of a tenant's request.
var (
	ErrFilter = errs.New(errs.Invalid, "actor and action must be valid UTF-8 without NUL, at most 300 characters")
	ErrLong   = errs.New(errs.Unprocessable, fmt.Sprintf("the audit log has more than %d lines: narrow it by from and to", maxLines))
)

// Line is an entry as its tenant sees it. What operators did says neither which of them nor why.
type Line struct {
	ID      uuid.UUID       `json:"id"`
	At      time.Time       `json:"at"`
	Actor   string          `json:"actor"` // session:<e-mail>, key:<id>, unknown, operator or service
	Action  string          `json:"action"`
	Target  string          `json:"target"`
	Address *netip.Addr     `json:"address"` // nil where the tenant did not do it
	Before  json.RawMessage `json:"before"`
	After   json.RawMessage `json:"after"`
}

// OwnFilter narrows a tenant's list; empty fields do not. From is included, To is not.
type OwnFilter struct {
	Actor, Action string
	From, To      time.Time
}

func (f OwnFilter) check() error {
	for _, s := range []string{f.Actor, f.Action} {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) || utf8.RuneCountInString(s) > maxFilter {
			return ErrFilter
		}
	}
	return nil
}

func (f OwnFilter) args(tenant uuid.UUID) pgx.NamedArgs {
	return pgx.NamedArgs{"tenant": tenant, "actor": f.Actor, "action": f.Action, "from": pg.OrNull(f.From), "to": pg.OrNull(f.To)}
}

// ownSQL selects a tenant's lines. An operator is not named, nor is where operators work; details
// of their acts that have other names than before and after (From and To) are not shown.
const ownSQL = `
	SELECT id, at, shown, action, target, CASE WHEN own THEN address END,
		coalesce(detail->'before', detail->'From'), coalesce(detail->'after', detail->'To')
	FROM (
		SELECT *, actor ~ '^(session:|key:|unknown$)' AS own,
			CASE WHEN actor ~ '^(session:|key:|unknown$)' THEN actor WHEN actor ~ '^(cli:|console:|operator-)' THEN 'operator' ELSE 'service' END AS shown
		FROM audit_log WHERE tenant_id = @tenant AND id < @before AND id >= @floor) l
	WHERE (@actor = '' OR shown = @actor) AND (@action = '' OR action = @action)
		AND (@from::timestamptz IS NULL OR at >= @from) AND (@to::timestamptz IS NULL OR at < @to)
	ORDER BY id DESC LIMIT @limit`

// Own returns a page of what was done by a tenant, or to it, newest first. Session only. A bad
// cursor is [page.ErrCursor]; [ErrFilter].
func Own(ctx context.Context, q pg.Querier, tenant uuid.UUID, f OwnFilter, r page.Request) ([]Line, page.Info, error) {
	if err := f.check(); err != nil {
		return nil, page.Info{}, err
	}
	list := pg.List[Line]{Name: page.OwnAudit, ID: func(l Line) uuid.UUID { return l.ID }, Row: pgx.RowToStructByPos[Line]}
	return list.Filtered(ctx, q, r, `audit_log WHERE tenant_id = @tenant`, ownSQL, f.args(tenant))
}

// OwnAll returns all that Own lists. [ErrLong] for more than [maxLines].
func OwnAll(ctx context.Context, q pg.Querier, tenant uuid.UUID, f OwnFilter) ([]Line, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	args := f.args(tenant)
	args["before"], args["floor"], args["limit"] = uuid.Max, uuid.Nil, maxLines+1
	lines, err := pg.Collect(ctx, q, pgx.RowToStructByPos[Line], ownSQL, args)
	if err == nil && len(lines) > maxLines {
		err = ErrLong
	}
	return lines, err
}
