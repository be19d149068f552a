package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Export is an account's part of a file of statements.
type Export struct {
	Account
	Opening  money.Amount // as its balance stood before the first line
	Closing  money.Amount // and at the end of the filter's time
	Standing money.Amount // the opening one by what is known now (ledger.StandingAt)
	Lines    []ledger.Line
}

// LeftOut are the accounts that have no lines in a file of all accounts. Balance is theirs at the
// end of the filter's time, if it filters by nothing else.
type LeftOut struct {
	Accounts int
	Balance  money.Amount
}

// maxExported is how many accounts one file has at most.
const maxExported = 1000

// Refusals of a file of all accounts.
var errManyAccounts = errs.New(errs.Unprocessable, fmt.Sprintf("there are more than %d accounts: export them one by one", maxExported))

func errManyLines(limit int) error {
	return errs.New(errs.Unprocessable, fmt.Sprintf("the statements have more than %d lines: narrow them by from and to", limit))
}

// Export reads the statement of the account that ref names for a file, as of one moment: therefore
// no replica reads it. Of a period that is over it has all entries. Refusals as in [Service.Get],
// [ledger.Lines] and [ledger.AwaitEnd].
func (s *Service) Export(ctx context.Context, tenantID uuid.UUID, ref string, f ledger.Filter, limit int) (x Export, err error) {
	if err := ledger.AwaitEnd(ctx, s.Pool, f.To); err != nil {
		return x, err
	}
	err = pg.Snapshot(ctx, s.Pool, func(tx pg.Tx) error {
		a, err := Find(ctx, tx, tenantID, ref)
		if err == nil {
			x, err = s.exportFrom(ctx, tx, a, f, limit)
		}
		return err
	})
	return x, err
}

// Exports is [Service.Export] of all accounts of the tenant that have lines, the oldest first: at
// most limit lines together, of 1,000 accounts. All are of one moment, lest what moves between two
// of them meanwhile is in one and not in the other. It also returns what it leaves out.
func (s *Service) Exports(ctx context.Context, tenantID uuid.UUID, f ledger.Filter, limit int) (out []Export, left LeftOut, err error) {
	if err := ledger.AwaitEnd(ctx, s.Pool, f.To); err != nil {
		return nil, left, err
	}
	err = pg.Snapshot(ctx, s.Pool, func(tx pg.Tx) error {
		out, left, err = s.exportsFrom(ctx, tx, tenantID, f, limit)
		return err
	})
	return out, left, err
}

func (s *Service) exportsFrom(ctx context.Context, q pg.Querier, tenantID uuid.UUID, f ledger.Filter, limit int) (out []Export, without LeftOut, err error) {
	accounts, err := pg.Collect(ctx, q, func(row pgx.CollectableRow) (a Account, err error) { return a, row.Scan(a.fields()...) }, `
		SELECT `+columns+` FROM accounts a WHERE a.tenant_id = $1 AND a.status <> 'provisioning' ORDER BY a.id LIMIT $2`, tenantID, maxExported+1)
	if err != nil {
		return nil, without, err
	}
	if len(accounts) > maxExported {
		return nil, without, errManyAccounts
	}
	left := limit
	for _, a := range accounts {
		x, err := s.exportFrom(ctx, q, a, f, limit) // not left: what the filter may look at does not shrink
		var refused *errs.Error
		switch {
		case errors.Is(err, ledger.ErrWide):
			return nil, without, err
		case errors.As(err, &refused) && refused.Kind == errs.Unprocessable:
			return nil, without, errManyLines(limit)
		case err != nil:
			return nil, without, err
		case len(x.Lines) > left:
			return nil, without, errManyLines(limit)
		case len(x.Lines) > 0:
			out = append(out, x)
			left -= len(x.Lines)
		default:
			without.Accounts++
			without.Balance = without.Balance.Add(x.Closing)
		}
	}
	return out, without, nil
}

func (s *Service) exportFrom(ctx context.Context, q pg.Querier, a Account, f ledger.Filter, limit int) (x Export, err error) {
	x.Account = a
	if !f.From.IsZero() {
		if x.Opening, err = ledger.BalanceAt(ctx, q, a.ID, f.From); err != nil {
			return x, err
		}
		if x.Standing, err = ledger.StandingAt(ctx, q, a.ID, f.From); err != nil {
			return x, err
		}
	}
	for l, err := range ledger.Lines(ctx, q, a.ID, f, limit) {
		if err != nil {
			return x, err
		}
		x.Lines = append(x.Lines, l)
	}
	x.Closing, err = f.Closing(ctx, q, a.ID, x.Opening, x.Lines, s.Clock.Now())
	return x, err
}
