package account

import (
	"context"
	"reflect"
	"strings"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/safehttp"
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
	NoRefunds      error       // refuses another ExpectedAmount where the policy refunds; nil: it may be
}

// Update changes an active account. The name changes here only, not at the bank (specification,
// "Accounts"). The audit log has what changes where its money or its events go. Not active:
// [ErrNotActive]; ch.NoRefunds; the check of [audit.By.While], behind the account's lock.
func (s *Service) Update(ctx context.Context, tenantID uuid.UUID, ref string, ch Changes, by audit.By) (Account, error) {
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
		// as it is when it is changed, whatever another change has done since it was found
		var was Account
		now := s.Clock.Now()
		err = tx.QueryRow(ctx, `SELECT `+columns+` FROM accounts a WHERE id = $1 FOR NO KEY UPDATE`, found.ID).Scan(was.fields()...)
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `
			UPDATE accounts a SET bank_account_name = coalesce($3, bank_account_name),
				callback_url = CASE WHEN $4::text IS NULL THEN callback_url ELSE nullif($4, '') END,
				expected_amount = coalesce($5::numeric, expected_amount), updated_at = $6,
				policy = CASE WHEN $7::jsonb IS NULL THEN policy ELSE nullif($7, '{}') END,
				split = CASE WHEN $8 THEN $9 ELSE split END
			WHERE id = $1 AND status = $2 RETURNING `+columns, found.ID, Active, ch.Name, ch.CallbackURL, ch.ExpectedAmount, now, ch.Policy, ch.Split != nil, split).Scan(a.fields()...)
		if err != nil {
			return pg.OrNone(err, ErrNotActive)
		}
		if ch.NoRefunds != nil && a.Policy.Refunds() && expectsOther(&was, &a) { // it decides which payments go back
			return ch.NoRefunds
		}
		return writeUpdate(ctx, tx, now, &was, &a, by)
	})
	return a, err
}

// settingsShown is what the audit log keeps of an account that was changed.
type settingsShown struct {
	CallbackURL    string        `json:"callbackUrl"`
	ExpectedAmount *money.Amount `json:"expectedAmount"`
	Policy         *Policy       `json:"policy"`
	Split          *Split        `json:"split"`
}

func showSettings(a *Account) settingsShown {
	shown := settingsShown{Policy: a.Policy, Split: a.Split}
	if a.ExpectedAmount != nil {
		shown.ExpectedAmount = &a.ExpectedAmount.Amount
	}
	if a.CallbackURL != nil {
		shown.CallbackURL = safehttp.Shown(*a.CallbackURL)
	}
	return shown
}

// expectsOther reports whether another amount is expected than before.
func expectsOther(was, is *Account) bool {
	if was.ExpectedAmount == nil || is.ExpectedAmount == nil {
		return was.ExpectedAmount != is.ExpectedAmount
	}
	return !was.ExpectedAmount.Equal(is.ExpectedAmount.Amount)
}

// writeUpdate writes who changed where an account's money or its events go. What a program changes
// otherwise, such as a name, or an amount by which no policy decides, is not in the audit log.
func writeUpdate(ctx context.Context, tx pg.Tx, now time.Time, was, is *Account, by audit.By) error {
	decides := !reflect.DeepEqual(was.CallbackURL, is.CallbackURL) || !reflect.DeepEqual(was.Policy, is.Policy) ||
		!reflect.DeepEqual(was.Split, is.Split) || is.Policy != nil && expectsOther(was, is)
	if !decides {
		return by.Stands(ctx, tx)
	}
	before, after := showSettings(was), showSettings(is)
	return audit.Write(ctx, tx, now, by.Entry("account.change", "account:"+is.ID.String(), audit.Change{Before: before, After: after}).Of(is.TenantID))
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
		return errExpectedAmount
	}
	if err := ch.Policy.check(); err != nil {
		return err
	}
	if ch.CallbackURL = trimmed(ch.CallbackURL); ch.CallbackURL != nil && *ch.CallbackURL != "" {
		return s.checkCallback(*ch.CallbackURL)
	}
	return nil
}

// errExpectedAmount refuses an expected amount that nobody can pay.
var errExpectedAmount = errs.New(errs.Invalid, "expectedAmount must be above zero")

// trimmed is a text without the spaces around it, nil if it is nil.
func trimmed(text *string) *string {
	if text == nil {
		return nil
	}
	return new(strings.TrimSpace(*text))
}
