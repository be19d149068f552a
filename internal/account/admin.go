package account

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/work"
)

// Refusals of a close by hand.
var (
	ErrNotClosable = errs.New(errs.Unprocessable, "only an expired account that is not closed at the bank, or one whose provisioning nobody finishes, is closed by hand")
	ErrHasMoney    = errs.New(errs.Unprocessable, "the account has money, or money of it is under way")
)

// Record is an account as operators see it.
type Record struct {
	Account
	TenantName  string
	TenantEmail string
	Balance     money.Amount
	ClosedAt    *time.Time // at the bank
	LastError   string     // of the provisioning, or of the close at the bank
}

const recordQuery = `
	SELECT t.name, t.email, coalesce(b.balance, 0), a.closed_at, a.last_error, ` + columns + `
	FROM accounts a
	JOIN tenants t ON t.id = a.tenant_id
	LEFT JOIN ledger_balances b ON b.account_id = a.id`

func toRecord(row pgx.CollectableRow) (r Record, err error) {
	return r, row.Scan(append([]any{&r.TenantName, &r.TenantEmail, &r.Balance, &r.ClosedAt, &r.LastError}, r.fields()...)...)
}

// ByNumber returns the accounts of all tenants that have, or had, a number at the bank, newest
// first. [ErrNotFound] for none.
func ByNumber(ctx context.Context, q pg.Querier, number string) ([]Record, error) {
	found, err := pg.Collect(ctx, q, toRecord, recordQuery+` WHERE a.bank_account_number = $1 ORDER BY a.id DESC LIMIT 100`, number)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	return found, err
}

// ByID returns an account of any tenant. [ErrNotFound].
func ByID(ctx context.Context, q pg.Querier, id uuid.UUID) (Record, error) {
	return pg.One(ctx, q, toRecord, ErrNotFound, recordQuery+` WHERE a.id = $1`, id)
}

// closableSQL finds money by what is open: an account may have millions of entries.
const closableSQL = `
	SELECT coalesce(a.leased_until > $2, false),
		EXISTS (SELECT FROM ledger_balances b WHERE b.account_id = a.id AND (b.balance <> 0 OR b.provisional_credits <> 0))
		OR EXISTS (SELECT FROM ledger_entries l WHERE l.account_id = a.id AND l.status = 'needs_review' AND l.review_from_seq IS NOT NULL AND l.review_to_seq IS NULL)
		OR EXISTS (SELECT FROM work w JOIN transfers t ON t.id = ANY(ARRAY[w.id]) WHERE w.kind = 'settle' AND t.account_id = a.id AND t.status IN ('pending', 'processing'))
	FROM accounts a WHERE a.id = $1`

// Closable returns the account that [CloseByHand] would close, with its refusals, and changes
// nothing.
func Closable(ctx context.Context, q pg.Querier, now time.Time, id uuid.UUID) (Record, error) {
	r, err := ByID(ctx, q, id)
	if err != nil {
		return Record{}, err
	}
	var leased, money bool
	err = q.QueryRow(ctx, closableSQL, id, now).Scan(&leased, &money)
	switch {
	case err != nil:
		return Record{}, err
	case r.Status == Provisioning && leased, r.Status == Active, r.ClosedAt != nil:
		return Record{}, ErrNotClosable
	case money:
		return Record{}, ErrHasMoney
	}
	return r, nil
}

// CloseByHand closes what nothing else closes, for an operator. An expired account that the bank
// does not close counts as closed there: the bank is not asked again, and its number may be another
// account's. A row whose provisioning nobody finishes is removed: it never was an account, and its
// reference is free again. [ErrNotFound]; [ErrNotClosable], also for all but the first of several
// concurrent calls; [ErrHasMoney].
func CloseByHand(ctx context.Context, pool *pg.Pool, now time.Time, id uuid.UUID, by audit.By) (r Record, err error) {
	err = pg.InTx(ctx, pool, func(tx pg.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM accounts WHERE id = $1 FOR UPDATE`, id); err != nil {
			return err
		}
		if r, err = Closable(ctx, tx, now, id); err != nil {
			return err
		}
		if r.Status == Provisioning {
			_, err = tx.Exec(ctx, `DELETE FROM accounts WHERE id = $1`, id)
		} else {
			_, err = tx.Exec(ctx, `UPDATE accounts SET closed_at = $2 WHERE id = $1`, id, now)
		}
		if err == nil {
			err = work.Cancel(ctx, tx, work.Expire, id)
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("accounts.close", "account:"+id.String(), struct {
			TenantID                      uuid.UUID
			AccountRef, BankAccountNumber string
			Status                        Status
			Type                          Type
			LastError                     string
		}{r.TenantID, r.AccountRef, r.BankAccountNumber, r.Status, r.Type, r.LastError}).Of(r.TenantID))
	})
	return r, err
}
