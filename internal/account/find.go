package account

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/fee"
	"ajo/internal/freeze"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Get finds a tenant's account by a path's reference: the active dedicated one, the newest active
// one-time one, the newest expired one; or by the account's own ID. Unknown, or another tenant's:
// [ErrNotFound].
func (s *Service) Get(ctx context.Context, tenantID uuid.UUID, ref string) (Account, error) {
	return Find(ctx, pg.Reader(ctx, s.Pool), tenantID, ref)
}

// Find is [Service.Get] on a given connection, for the packages that build on accounts.
func Find(ctx context.Context, q pg.Querier, tenantID uuid.UUID, ref string) (Account, error) {
	found, err := readPayers(pg.Rows(ctx, q, findSQL, refArgs([]Ref{{TenantID: tenantID, AccountRef: ref}})...), 1)
	if err != nil {
		return Account{}, err
	}
	if found[0].Account == nil {
		return Account{}, ErrNotFound
	}
	return *found[0].Account, nil
}

// named is, as SQL, the order of the accounts that have a reference, which names the first of them.
// They may be many, so an index has it.
const named = `precedence DESC, id DESC`

// Ref names a tenant's account as a path does.
type Ref struct {
	TenantID   uuid.UUID
	AccountRef string
	ID         uuid.UUID // instead of AccountRef, which is empty then
}

// Payer is an account that is to pay; Account is nil where it is not found.
type Payer struct {
	*Account
	Frozen bool // a freeze refuses requests, too
	// its tenant has limits of payouts (package limit); read by [FindPayers] alone
	Limited bool
	// its tenant bears what the bank takes for payouts
	BearsFee bool
	// some payouts of its tenant need approvals of members (package transfer)
	Approvals bool
	Priced    bool // its tenant has a price, or will have one (package fee)
}

var (
	findSQL       = payersSQL(`false, false, '{f,f}'::boolean[], false`)
	findPayersSQL = payersSQL(`EXISTS (SELECT FROM freezes f WHERE f.requests AND ` + freeze.On("found.id", "found.id", "$4") + `),
			EXISTS (SELECT FROM payout_limits l WHERE l.tenant_id = ANY(ARRAY[found.tenant_id])),
			(SELECT ARRAY[n.payout_fee_by = 'tenant', n.payout_approvals > 0] FROM tenants n WHERE n.id = found.tenant_id), ` + fee.Priced("found.tenant_id"))
)

// FindPayers is [Find] for many, in one statement, with the freezes that stand at the time now, and
// what the tenant's policy says. It calls Query itself, as the calls to the first SQL of a
// settlement are kept few (docs/architecture.md).
func FindPayers(ctx context.Context, q pg.Querier, now time.Time, refs []Ref) ([]Payer, error) {
	rows, _ := q.Query(ctx, findPayersSQL, refArgs(refs, now)...) // rows have the error too
	return readPayers(rows, len(refs))
}

// payersSQL finds the accounts of [refArgs] and, of each, whether the conditions hold on the row
// that is found: the third are two in one array, as they are of one row.
func payersSQL(conditions string) string {
	return `
		SELECT r.n, ` + conditions + `, found.* FROM unnest($1::uuid[], $2::text[], $3::uuid[]) WITH ORDINALITY AS r (tenant_id, ref, id, n)
		CROSS JOIN LATERAL (
			SELECT ` + columns + ` FROM (
				(SELECT * FROM accounts WHERE account_ref = r.ref AND tenant_id = r.tenant_id ORDER BY ` + named + ` LIMIT 1)
				UNION ALL SELECT * FROM accounts WHERE id = r.id AND tenant_id = r.tenant_id) AS a
			WHERE a.status <> 'provisioning'
			ORDER BY a.account_ref = r.ref DESC LIMIT 1) AS found`
}

// refArgs are the arguments of [payersSQL]; those of its conditions follow, from $4 on.
func refArgs(refs []Ref, more ...any) []any {
	tenants, texts, ids := make([]uuid.UUID, len(refs)), make([]string, len(refs)), make([]uuid.UUID, len(refs))
	for i, r := range refs {
		tenants[i], texts[i] = r.TenantID, r.AccountRef
		// uuid.Nil, which no account has, when the reference is not an ID
		if ids[i] = r.ID; r.ID == uuid.Nil {
			ids[i], _ = uuid.Parse(r.AccountRef)
		}
	}
	return append([]any{tenants, texts, ids}, more...)
}

// readPayers reads the rows of [payersSQL], one of each reference that is found.
func readPayers(rows pgx.Rows, refs int) ([]Payer, error) {
	out := make([]Payer, refs)
	defer rows.Close()
	for rows.Next() {
		var n int
		var a Account
		var frozen, limited, priced bool
		var policy []bool // of its tenant
		if err := rows.Scan(append([]any{&n, &frozen, &limited, &policy, &priced}, a.fields()...)...); err != nil {
			return nil, err
		}
		out[n-1] = Payer{&a, frozen, limited, policy[0], policy[1], priced}
	}
	return out, rows.Err()
}

// OfCustomer finds the account of a tenant's customer, in the order of a path's reference: the
// active dedicated one, the newest active one-time one, the newest expired one.
// [customer.ErrNotFound] for an unknown or another tenant's customer, [ErrNotLinked] for one that
// has none. (Specification, GET /v1/customers/:id/account.)
func (s *Service) OfCustomer(ctx context.Context, tenantID, customerID uuid.UUID) (Account, error) {
	var a Account
	err := s.Pool.QueryRow(ctx, `
		SELECT `+columns+` FROM accounts a
		WHERE a.tenant_id = $1 AND a.customer_id = $2 AND a.status <> 'provisioning'
		ORDER BY `+named+` LIMIT 1`,
		tenantID, customerID).Scan(a.fields()...)
	if !pg.IsNoRows(err) {
		return a, err
	}
	if _, err := customer.Find(ctx, s.Pool, tenantID, customerID); err != nil {
		return a, err
	}
	return a, ErrNotLinked
}

// OfNumber finds the tenant's account that has a number at the bank, or had it last. Unknown, or
// another tenant's: [ErrNotFound].
func (s *Service) OfNumber(ctx context.Context, tenantID uuid.UUID, number string) (a Account, err error) {
	err = s.Pool.QueryRow(ctx, `
		SELECT `+columns+` FROM accounts a WHERE a.tenant_id = $1 AND a.bank_account_number = $2 AND a.status <> 'provisioning'
		ORDER BY a.status = 'active' DESC, a.id DESC LIMIT 1`, tenantID, number).Scan(a.fields()...)
	return a, pg.OrNone(err, ErrNotFound)
}

// ErrStatus refuses a list of an unknown status.
var ErrStatus = errs.New(errs.Invalid, "status must be active, expired or needs_review")

// Filter narrows a list; empty fields do not.
type Filter struct {
	Search string // a part of the reference, the holder's name or the number, in any case
	Status Status // or [NeedsReview]
}

// NeedsReview is a filter's status that no account has: those with a payment under review.
const NeedsReview Status = "needs_review"

// Listed is an account in a list, with its balance.
type Listed struct {
	Account
	Balance money.Amount
}

func listedID(a Listed) uuid.UUID { return a.ID }

func scanListed(row pgx.CollectableRow) (a Listed, err error) {
	return a, row.Scan(append([]any{&a.Balance}, a.fields()...)...)
}

// List returns a page of the tenant's accounts: newest first, or by creation, name or balance. A
// bad cursor is [page.ErrCursor], as is one by name whose account has another name by now; an
// unknown status is [ErrStatus]; [page.ErrSort].
func (s *Service) List(ctx context.Context, tenantID uuid.UUID, f Filter, r page.Request) ([]Listed, page.Info, error) {
	switch f.Status {
	case "", Active, Expired, NeedsReview:
	default:
		return nil, page.Info{}, ErrStatus
	}
	q := pg.Reader(ctx, s.Pool)
	if err := sameName(ctx, q, tenantID, r); err != nil {
		return nil, page.Info{}, err
	}
	list := pg.List[Listed]{Name: page.Accounts, ID: listedID, Row: scanListed}
	return list.Sorted(ctx, q, r, `accounts WHERE tenant_id = @tenant`, `
		SELECT b.balance, `+columns+` FROM accounts a CROSS JOIN LATERAL (SELECT balance FROM ledger_balances WHERE account_id = a.id LIMIT 1) b
		WHERE a.tenant_id = @tenant AND a.id < @before AND a.id >= @floor AND a.status <> 'provisioning'
			AND (@status = '' OR a.status = @status OR (@status = 'needs_review' AND EXISTS (
				SELECT FROM ledger_entries e WHERE e.account_id = a.id AND e.status = 'needs_review' AND (e.review_from_seq IS NOT NULL OR e.review_to_seq IS NOT NULL))))
			AND (@search = '' OR strpos(lower(a.account_ref), lower(@search)) > 0 OR strpos(lower(a.bank_account_name), lower(@search)) > 0
				OR strpos(a.bank_account_number, @search) > 0)`, accountOrders, pgx.NamedArgs{"tenant": tenantID, "status": string(f.Status), "search": f.Search})
}

// accountOrders are the orders of the list beside its own. A name does not fit a cursor, which
// names its account in place of it: an own one, or the page would tell how another's holder sorts.
var accountOrders = map[page.Key]pg.Order[Listed]{
	page.Balance: {
		Ascending:  ` WHERE @first OR (s.balance, s.id) > (@value::numeric, @id::uuid) ORDER BY s.balance, s.id LIMIT @rows`,
		Descending: ` WHERE @first OR (s.balance, s.id) < (@value::numeric, @id::uuid) ORDER BY s.balance DESC, s.id DESC LIMIT @rows`,
		Value:      func(a Listed) money.Amount { return a.Balance },
	},
	page.Name: {
		Ascending: ` WHERE @first OR (lower(s.bank_account_name), s.id) > ((SELECT lower(bank_account_name) FROM accounts WHERE id = @id AND tenant_id = @tenant), @id::uuid)
			ORDER BY lower(s.bank_account_name), s.id LIMIT @rows`,
		Descending: ` WHERE @first OR (lower(s.bank_account_name), s.id) < ((SELECT lower(bank_account_name) FROM accounts WHERE id = @id AND tenant_id = @tenant), @id::uuid)
			ORDER BY lower(s.bank_account_name) DESC, s.id DESC LIMIT @rows`,
		Value: func(a Listed) money.Amount { return nameMark(a.BankAccountName) },
	},
}

// nameMark is what a cursor has of its account's name: enough to tell that it is another by now.
func nameMark(name string) money.Amount {
	sum := sha256.Sum256([]byte(name))
	return money.FromKobo(int64(binary.BigEndian.Uint32(sum[:])))
}

// sameName returns [page.ErrCursor] if the account of a cursor by name has another name by now: the
// page would begin behind that one.
func sameName(ctx context.Context, q pg.Querier, tenantID uuid.UUID, r page.Request) error {
	if r.Sort.By != page.Name {
		return nil
	}
	mark, id, ok, err := page.ParseSorted(page.Accounts, r.Sort, r.After)
	if err != nil || !ok {
		return err
	}
	var name string
	err = q.QueryRow(ctx, `SELECT bank_account_name FROM accounts WHERE id = $1 AND tenant_id = $2`, id, tenantID).Scan(&name)
	if err == nil && !nameMark(name).Equal(money.FromKobo(mark)) {
		return page.ErrCursor
	}
	return pg.OrNone(err, nil)
}

// History returns the account's changes of status, oldest first.
func (s *Service) History(ctx context.Context, tenantID uuid.UUID, ref string) ([]HistoryEntry, error) {
	a, err := s.Get(ctx, tenantID, ref)
	if err != nil {
		return nil, err
	}
	return pg.Collect(ctx, pg.Reader(ctx, s.Pool), pgx.RowToStructByPos[HistoryEntry], `
		SELECT id, account_id, from_status, to_status, reason, created_at FROM account_history WHERE account_id = $1 ORDER BY created_at, id`, a.ID)
}

// Statement is the answer of the statement endpoint.
type Statement struct {
	VirtualAccount Account `json:"virtualAccount"`
	ledger.Statement
}

// Statement reads a page of the account's statement, oldest line first. A bad cursor is
// [page.ErrCursor]; refusals of the filter as in [ledger.ReadStatement].
func (s *Service) Statement(ctx context.Context, tenantID uuid.UUID, ref string, f ledger.Filter, r page.Request) (Statement, error) {
	a, err := s.Get(ctx, tenantID, ref)
	if err != nil {
		return Statement{}, err
	}
	st, err := ledger.ReadStatement(ctx, pg.Reader(ctx, s.Pool), a.ID, f, r)
	return Statement{VirtualAccount: a, Statement: st}, err
}

// Lines finds an account and its entries that the filter lets through, at most limit of them, with
// the balance that stood before them. They are read as the sequence is; refusals as in
// [ledger.Lines] and [ledger.AwaitEnd].
func (s *Service) Lines(ctx context.Context, tenantID uuid.UUID, ref string, f ledger.Filter, limit int) (Account, money.Amount, iter.Seq2[ledger.Line, error], error) {
	if err := ledger.AwaitEnd(ctx, s.Pool, f.To); err != nil {
		return Account{}, money.Zero, nil, err
	}
	q := pg.Reader(ctx, s.Pool)
	a, err := Find(ctx, q, tenantID, ref)
	if err != nil || f.From.IsZero() {
		return a, money.Zero, ledger.Lines(ctx, q, a.ID, f, limit), err
	}
	opening, err := ledger.BalanceAt(ctx, q, a.ID, f.From)
	return a, opening, ledger.Lines(ctx, q, a.ID, f, limit), err
}
