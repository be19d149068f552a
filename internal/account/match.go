package account

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/fee"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// Alias is how an inbound event names the account that was paid.
type Alias struct {
	Ref    string    // data.transaction.aliasAccountReference
	Number string    // data.transaction.aliasAccountNumber, where the event carries it
	At     time.Time // of the payment: a number may have been another account's then
}

// Target is an account that a payment may be posted to; a one-time account is locked until the
// transaction ends.
type Target struct {
	ID             uuid.UUID
	TenantID       uuid.UUID
	AccountRef     string
	Status         Status
	Type           Type
	ExpectedAmount *money.Amount
	ExpiresAt      *time.Time
	ExpiredAt      *time.Time
	Policy         *Policy    // nil: none
	Split          *string    // how its payments are shared out, as JSON (package ledger); nil: not at all
	CallbackURL    string     // the account's own, else the tenant's; empty when there is none
	FanOut         bool       // the tenant has more endpoints (package webhook)
	ListeningUntil *time.Time // the tenant's (package webhook)
	Tiered         bool       // the tenant has limits of tiers (ledger, deposit.go)
	Priced         bool       // the tenant has a price, or will have one (package fee)
}

// Accepts reports whether a payment made at the given time is still accepted (decisions,
// "Accounts").
func (t *Target) Accepts(at time.Time) bool {
	if t.ExpiredAt != nil && at.After(*t.ExpiredAt) {
		return false
	}
	return t.ExpiresAt == nil || !at.After(*t.ExpiresAt)
}

// Match finds the account of each alias, in the aliases' order, and locks the one-time accounts
// among them, which a payment may end, in the order of their ids. Dedicated accounts are not
// locked: it does not matter whether what a payment reads of one changes at that moment or a moment
// later, and each lock would be a write. A reference is matched to our own UUID first, then the
// number (see [holderOf]), then to an AccountRef that one account of the whole service has;
// ambiguous means that several have it. No account: a nil target.
func Match(ctx context.Context, tx pg.Tx, aliases []Alias) (targets []*Target, ambiguous []bool, err error) {
	ids, ambiguous, err := resolve(ctx, tx, aliases)
	if err != nil {
		return nil, nil, err
	}
	byID := make(map[uuid.UUID]*Target, len(ids))
	if err := read(ctx, tx, ids, "", byID); err != nil {
		return nil, nil, err
	}
	var ending []uuid.UUID
	for id, t := range byID {
		if t.Type == OneTime {
			ending = append(ending, id)
		}
	}
	if len(ending) > 0 {
		if err := read(ctx, tx, ending, "FOR NO KEY UPDATE OF a", byID); err != nil {
			return nil, nil, err
		}
	}
	targets = make([]*Target, len(aliases))
	for i, id := range ids {
		targets[i] = byID[id]
	}
	return targets, ambiguous, nil
}

// TenantsOf tells whose account each alias names, as far as its reference (our own UUID) or number
// says so; uuid.Nil: nobody's. It is a hint for whose turn it is to be posted: [Match] decides.
func TenantsOf(ctx context.Context, q pg.Querier, aliases []Alias) ([]uuid.UUID, error) {
	tenants := make([]uuid.UUID, len(aliases))
	if len(aliases) == 0 {
		return tenants, nil
	}
	ids, numbers := make([]uuid.UUID, len(aliases)), make([]string, len(aliases))
	for i, a := range aliases {
		ids[i], _ = uuid.Parse(a.Ref)
		numbers[i] = a.Number
	}
	rows := pg.Rows(ctx, q, `
		SELECT id, coalesce(bank_account_number, ''), tenant_id FROM accounts WHERE id = ANY($1)
		UNION ALL SELECT id, bank_account_number, tenant_id FROM accounts WHERE bank_account_number = ANY($2)`, ids, numbers)
	byID, byNumber := map[uuid.UUID]uuid.UUID{}, map[string]uuid.UUID{}
	var id, tenant uuid.UUID
	var number string
	_, err := pgx.ForEachRow(rows, []any{&id, &number, &tenant}, func() error {
		byID[id], byNumber[number] = tenant, tenant
		return nil
	})
	for i, a := range aliases {
		if tenants[i] = byID[ids[i]]; tenants[i] == uuid.Nil && a.Number != "" {
			tenants[i] = byNumber[a.Number]
		}
	}
	return tenants, err
}

// read reads targets, under a lock where lock is a clause.
func read(ctx context.Context, tx pg.Tx, ids []uuid.UUID, lock string, into map[uuid.UUID]*Target) error {
	found, err := pg.Collect(ctx, tx, pgx.RowToAddrOfStructByPos[Target], `
		SELECT a.id, a.tenant_id, a.account_ref, a.status, a.type, a.expected_amount, a.expires_at, a.expired_at, a.policy, a.split::text,
			coalesce(nullif(a.callback_url, ''), t.webhook_url), t.webhook_endpoints > 0 OR t.event_log, t.listening_until,
			EXISTS (SELECT FROM tier_limits l WHERE l.tenant_id = ANY(ARRAY[a.tenant_id])), `+fee.Priced("a.tenant_id")+`
		FROM accounts a JOIN tenants t ON t.id = a.tenant_id
		WHERE a.id = ANY($1) ORDER BY a.id `+lock, ids)
	for _, t := range found {
		into[t.ID] = t
	}
	return err
}

// resolve turns aliases into account ids without locking; uuid.Nil where there is none or more than
// one. An account's id, number and reference never change, and a number that is issued again is so
// after it was closed: what it finds stays true of a payment that has been made.
func resolve(ctx context.Context, q pg.Querier, aliases []Alias) ([]uuid.UUID, []bool, error) {
	found, ambiguous := make([]uuid.UUID, len(aliases)), make([]bool, len(aliases))
	own, numbers := make([]uuid.UUID, len(aliases)), make([]string, len(aliases))
	for i, a := range aliases {
		own[i], _ = uuid.Parse(a.Ref)
		numbers[i] = a.Number
	}
	rows := pg.Rows(ctx, q, `
		SELECT a.id, a.bank_account_number FROM accounts a WHERE a.id = ANY($1) AND a.status <> 'provisioning'
		UNION SELECT a.id, a.bank_account_number FROM accounts a WHERE a.bank_account_number = ANY($2) AND a.status <> 'provisioning'`, own, numbers)
	exists, byNumber := map[uuid.UUID]bool{}, map[string][]uuid.UUID{}
	var id uuid.UUID
	var number string
	if _, err := pgx.ForEachRow(rows, []any{&id, &number}, func() error {
		exists[id] = true
		byNumber[number] = append(byNumber[number], id)
		return nil
	}); err != nil {
		return nil, nil, err
	}
	holders, err := readHolders(ctx, q, byNumber)
	if err != nil {
		return nil, nil, err
	}
	var refs []string
	for i, a := range aliases {
		switch n := byNumber[a.Number]; {
		case exists[own[i]]:
			found[i] = own[i]
		case a.Number != "" && len(n) == 1:
			found[i] = n[0]
		case a.Number != "" && len(n) > 1:
			found[i] = holderOf(holders[a.Number], a.At)
			ambiguous[i] = found[i] == uuid.Nil
		case a.Ref != "":
			refs = append(refs, a.Ref)
		}
	}
	if len(refs) == 0 {
		return found, ambiguous, nil
	}
	return found, ambiguous, resolveRefs(ctx, q, aliases, refs, found, ambiguous)
}

// holder is an account that has, or had, a number that the bank has issued more than once.
type holder struct {
	ID     uuid.UUID
	Number string
	Opened time.Time
	Closed *time.Time // nil: open at the bank, as far as we know
}

// readHolders reads who had each number that several accounts have, the newest first.
func readHolders(ctx context.Context, q pg.Querier, byNumber map[string][]uuid.UUID) (map[string][]holder, error) {
	var ids []uuid.UUID
	for _, n := range byNumber {
		if len(n) > 1 {
			ids = append(ids, n...)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := pg.Collect(ctx, q, pgx.RowToStructByPos[holder], `
		SELECT a.id, a.bank_account_number, coalesce(h.created_at, a.created_at), a.closed_at
		FROM accounts a LEFT JOIN account_history h ON h.account_id = ANY(ARRAY[a.id]) AND CASE h.to_status WHEN 'active' THEN true ELSE false END
		WHERE a.id = ANY($1) ORDER BY 3 DESC`, ids)
	holders := map[string][]holder{}
	for _, h := range list {
		holders[h.Number] = append(holders[h.Number], h)
	}
	return holders, err
}

// holderOf is the account that a payment made at the given time went to, of those that have or had
// its number, the newest first: the open one, or else the one that was open at that time. A payment
// that is older than the open account's number went to the account that had the number then, even
// if its event comes only now. If none had it, by the bank's clock, it is the open account's, or
// else the last one's that had it before, which refuses it. Two open ones, of two banks: uuid.Nil.
func holderOf(holders []holder, at time.Time) uuid.UUID {
	var open, then []uuid.UUID
	for _, h := range holders {
		had := !at.Before(h.Opened)
		if h.Closed == nil {
			if open = append(open, h.ID); had {
				then = append([]uuid.UUID{h.ID}, then...)
			}
		} else if had && !at.After(*h.Closed) {
			then = append(then, h.ID)
		}
	}
	switch {
	case len(open) > 1:
		return uuid.Nil
	case len(then) > 0:
		return then[0]
	case len(open) > 0:
		return open[0]
	}
	for _, h := range holders {
		if !at.Before(h.Opened) {
			return h.ID
		}
	}
	return holders[len(holders)-1].ID
}

// resolveRefs matches the aliases that neither id nor number found to the tenants' own references.
func resolveRefs(ctx context.Context, q pg.Querier, aliases []Alias, refs []string, found []uuid.UUID, ambiguous []bool) error {
	rows := pg.Rows(ctx, q, `
		SELECT account_ref, count(*), min(id::text)::uuid FROM accounts WHERE account_ref = ANY($1) AND status <> 'provisioning' GROUP BY account_ref`, refs)
	type candidates struct {
		count int
		id    uuid.UUID
	}
	byRef := map[string]candidates{}
	var ref string
	var c candidates
	if _, err := pgx.ForEachRow(rows, []any{&ref, &c.count, &c.id}, func() error {
		byRef[ref] = c
		return nil
	}); err != nil {
		return err
	}
	for i, a := range aliases {
		if found[i] != uuid.Nil || ambiguous[i] {
			continue
		}
		switch c := byRef[a.Ref]; {
		case c.count == 1:
			found[i] = c.id
		case c.count > 1:
			ambiguous[i] = true
		}
	}
	return nil
}
