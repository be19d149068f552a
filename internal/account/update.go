package account

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
)

// ErrNoFields refuses a change that names no known field.
var ErrNoFields = errs.New(errs.Invalid, "no fields to update")

// Changes are what a tenant may change of an account; nil leaves a field as it is. An empty
// CallbackURL removes the account's own, so that the tenant's is used again.
type Changes struct {
	Name           *string
	CallbackURL    *string
	ExpectedAmount *money.Amount
	Policy         *Policy     // in place of the whole policy; an empty one removes it
	Split          *[]NewShare // in place of the whole split; none: payments are not shared out
}

// Update changes an active account. The name changes here only, not at the bank (specification,
// "Accounts"). Not active: [ErrNotActive].
func (s *Service) Update(ctx context.Context, tenantID uuid.UUID, ref string, ch Changes) (Account, error) {
	if err := s.checkChanges(&ch); err != nil {
		return Account{}, err
	}
	var a Account
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		found, err := Find(ctx, tx, tenantID, ref)
		if err != nil {
			return err
		}
		if ch.CallbackURL != nil && *ch.CallbackURL != "" {
			if err := s.EnsureSecret(ctx, tx, tenantID); err != nil {
				return err
			}
		}
		var split *Split
		if ch.Split != nil {
			if split, err = resolveShares(ctx, tx, &found, *ch.Split); err != nil {
				return err
			}
		}
		err = tx.QueryRow(ctx, `
			UPDATE accounts a SET bank_account_name = coalesce($3, bank_account_name),
				callback_url = CASE WHEN $4::text IS NULL THEN callback_url ELSE nullif($4, '') END,
				expected_amount = coalesce($5::numeric, expected_amount), updated_at = $6,
				policy = CASE WHEN $7::jsonb IS NULL THEN policy ELSE nullif($7, '{}') END,
				split = CASE WHEN $8 THEN $9 ELSE split END
			WHERE id = $1 AND status = $2 RETURNING `+columns, found.ID, Active, ch.Name, ch.CallbackURL, ch.ExpectedAmount, s.Clock.Now(), ch.Policy, ch.Split != nil, split).Scan(a.fields()...)
		if pg.IsNoRows(err) {
			return ErrNotActive
		}
		return err
	})
	return a, err
}

func (s *Service) checkChanges(ch *Changes) error {
	if ch.Name == nil && ch.CallbackURL == nil && ch.ExpectedAmount == nil && ch.Policy == nil && ch.Split == nil {
		return ErrNoFields
	}
	if ch.Name != nil {
		name, err := customer.CleanName(*ch.Name)
		if err != nil {
			return err
		}
		ch.Name = &name
	}
	if ch.ExpectedAmount != nil && !ch.ExpectedAmount.IsPositive() {
		return errAmount
	}
	if err := ch.Policy.check(); err != nil {
		return err
	}
	if ch.CallbackURL = trimmed(ch.CallbackURL); ch.CallbackURL != nil && *ch.CallbackURL != "" {
		return s.checkCallback(*ch.CallbackURL)
	}
	return nil
}

// errAmount refuses an expected amount that nobody can pay.
var errAmount = errs.New(errs.Invalid, "expectedAmount must be above zero")

// trimmed is a text without the spaces around it, nil if it is nil.
func trimmed(text *string) *string {
	if text == nil {
		return nil
	}
	return new(strings.TrimSpace(*text))
}
