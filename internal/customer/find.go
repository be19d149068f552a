package customer

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/errs"
	"ajo/internal/page"
	"ajo/internal/pg"
)

const maxName = 200 // characters

// Get returns a tenant's customer. Unknown, or another tenant's: [ErrNotFound]. (Specification, GET
// /v1/customers/:id.)
func (s *Service) Get(ctx context.Context, tenantID, id uuid.UUID) (Customer, error) {
	return Find(ctx, s.Pool, tenantID, id)
}

// Find is [Service.Get] on a given connection, for the packages that build on customers.
func Find(ctx context.Context, q pg.Querier, tenantID, id uuid.UUID) (Customer, error) {
	var c Customer
	err := q.QueryRow(ctx, `SELECT `+columns+` FROM customers c WHERE c.tenant_id = $1 AND c.id = $2`, tenantID, id).Scan(c.fields()...)
	return c, pg.OrNone(err, ErrNotFound)
}

// errKYCStatus refuses a list of an unknown KYC status.
var errKYCStatus = errs.New(errs.Invalid, "kycStatus must be none, pending_review, approved or rejected")

// Filter narrows a list; empty fields do not.
type Filter struct {
	Search    string // a part of the reference or the name, in any case
	KYCStatus KYCStatus
}

func scanCustomer(row pgx.CollectableRow) (c Customer, err error) { return c, row.Scan(c.fields()...) }

// List returns a page of the tenant's customers, newest first. A bad cursor is [page.ErrCursor], an
// unknown KYC status [errKYCStatus]. (Specification, GET /v1/customers.)
func (s *Service) List(ctx context.Context, tenantID uuid.UUID, f Filter, r page.Request) ([]Customer, page.Info, error) {
	if !KYCTransitions.Knows(f.KYCStatus) {
		return nil, page.Info{}, errKYCStatus
	}
	list := pg.List[Customer]{Name: page.Customers, ID: func(c Customer) uuid.UUID { return c.ID }, Row: scanCustomer}
	return list.Filtered(ctx, pg.Reader(ctx, s.Pool), r, `customers WHERE tenant_id = @tenant`, `
		SELECT `+columns+` FROM customers c
		WHERE c.tenant_id = @tenant AND c.id < @before AND c.id >= @floor AND (@status = '' OR c.kyc_status = @status)
			AND (@search = '' OR strpos(lower(c.external_ref), lower(@search)) > 0 OR strpos(lower(c.name), lower(@search)) > 0)
		ORDER BY c.id DESC LIMIT @limit`, pgx.NamedArgs{"tenant": tenantID, "status": string(f.KYCStatus), "search": f.Search})
}

// Rename gives a tenant's customer another display name and returns the customer. Its accounts keep
// theirs. An approval was of the name before: KYC is none again, and the tier 1. standing is asked
// behind the customer's lock. [ErrNameMissing], [errNameTooLong], [errNameControls]; [ErrNotFound].
// (Specification, PATCH /v1/customers/:id.)
func (s *Service) Rename(ctx context.Context, tenantID, id uuid.UUID, name string, standing audit.Standing) (Customer, error) {
	name, err := CleanName(name)
	if err != nil {
		return Customer{}, err
	}
	var c Customer
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if c, err = lock(ctx, tx, tenantID, id); err != nil {
			return err
		}
		if err := standing.Check(ctx, tx); err != nil {
			return err
		}
		if c.Name != name && c.KYCStatus == KYCApproved {
			if c, err = s.move(ctx, tx, c, KYCRename); err != nil {
				return err
			}
		}
		return tx.QueryRow(ctx, `UPDATE customers c SET name = $2, updated_at = $3 WHERE c.id = $1 RETURNING `+columns, id, name, s.Clock.Now()).
			Scan(c.fields()...)
	})
	return c, err
}

// CleanName trims a customer's or an account holder's name: 1 to 200 characters, none of them a
// control character.
func CleanName(name string) (string, error) {
	name = strings.TrimSpace(name)
	switch {
	case name == "":
		return "", ErrNameMissing
	case utf8.RuneCountInString(name) > maxName:
		return "", errNameTooLong
	case strings.ContainsFunc(name, unicode.IsControl):
		return "", errNameControls
	}
	return name, nil
}
