package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/clock"
	"ajo/internal/customer"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider"
	"ajo/internal/safehttp"
	"ajo/internal/secret"
	"ajo/internal/work"
	"ajo/ledger"
)

const (
	maxRef = 255 // characters
	// provisionLease is how long one caller may take at the bank for a row; longer than the bank's
	// own deadline.
	provisionLease = time.Minute
	// provisionPoll is how often the callers with the same reference, one for all, look whether the
	// first has finished.
	provisionPoll = 50 * time.Millisecond
)

// NewAccount is a request for a virtual account (specification, "Provision body").
type NewAccount struct {
	ExternalRef    string
	Name           string
	BVN            secret.Redacted
	CallbackURL    *string
	ExpectedAmount *money.Amount
	ExpiresAt      *time.Time
	Mode           string // "", "dedicated" or "onetime"
	Policy         *Policy
	By             *audit.By      // the member who asks for it; nil: an API key, whose accounts are not in the audit log
	Standing       audit.Standing `json:"-"`
}

var (
	bvnForm    = regexp.MustCompile(`^[0-9]{11}$`)
	numberForm = regexp.MustCompile(`^[0-9]{10}$`)
)

func (s *Service) validate(in *NewAccount, now time.Time) error {
	name, nameErr := customer.CleanName(in.Name)
	in.Name = name
	switch {
	case strings.TrimSpace(in.ExternalRef) == "":
		return errs.New(errs.Invalid, "externalRef is required")
	case utf8.RuneCountInString(in.ExternalRef) > maxRef:
		return errs.New(errs.Invalid, "externalRef must be at most 255 characters")
	case strings.ContainsFunc(in.ExternalRef, unicode.IsControl) || strings.Contains(in.ExternalRef, "/"):
		return errs.New(errs.Invalid, "externalRef must not contain a slash or control characters")
	case strings.TrimSpace(in.ExternalRef) != in.ExternalRef: // cut, it would be another reference
		return errs.New(errs.Invalid, "externalRef must not begin or end with a space")
	case in.ExternalRef == "." || in.ExternalRef == "..": // clients remove such segments from a path
		return errs.New(errs.Invalid, "externalRef must not be . or ..: it cannot be used in a URL")
	case nameErr != nil:
		return nameErr
	case in.BVN.Reveal() != "" && !bvnForm.MatchString(in.BVN.Reveal()):
		return errs.New(errs.Invalid, "bvn must be exactly 11 digits")
	case in.ExpectedAmount != nil && !in.ExpectedAmount.IsPositive():
		return errExpectedAmount
	}
	switch Type(in.Mode) {
	case "":
		in.Mode = string(Dedicated)
	case Dedicated, OneTime:
	default:
		return errs.New(errs.Invalid, "mode must be dedicated or onetime")
	}
	if in.ExpiresAt != nil {
		if Type(in.Mode) == Dedicated {
			return errs.New(errs.Invalid, "expiresAt is for one-time accounts only")
		}
		if !in.ExpiresAt.After(now) {
			return errs.New(errs.Invalid, "expiresAt must be in the future")
		}
		at := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		in.ExpiresAt = &at
	}
	if err := in.Policy.check(); err != nil {
		return err
	}
	in.Policy = in.Policy.orNone()
	if in.CallbackURL = trimmed(in.CallbackURL); in.CallbackURL != nil && *in.CallbackURL == "" {
		in.CallbackURL = nil
	}
	if in.CallbackURL != nil {
		return s.checkCallback(*in.CallbackURL)
	}
	return nil
}

func (s *Service) checkCallback(url string) error {
	return safehttp.CheckURL("callbackUrl", url, s.Callbacks)
}

// Provisioned is the result of a request for an account: the answer, and the account (zero when the
// answer is a kept one).
type Provisioned struct {
	Account
	idempotency.Result
}

// reservation is a row that is ours to take to the bank until lease.
type reservation struct {
	Provisioned
	at    time.Time // when it was made
	lease time.Time
	key   idempotency.Request
}

// answer makes the answer, and keeps it in the transaction that makes it true.
func (r *reservation) answer(ctx context.Context, tx pg.Tx, now time.Time) (err error) {
	if r.Answer, err = idempotency.NewAnswer(http.StatusCreated, r.Account); err != nil {
		return err
	}
	return idempotency.Save(ctx, tx, now, r.key, r.Answer)
}

// errWait says that another caller is opening this reference at the bank.
var errWait = errors.New("account: being provisioned by another caller")

// Provision opens a virtual account. The row is written before the bank is called, under a lease,
// so a crash or a refusal leaves a row that the next call with the same reference finishes, and two
// calls at once make one account. Dedicated and active already: that account. [ErrExists] when it
// is expired, [ErrProvider] when the bank fails (and provider.ErrBusy too when it had no turn for
// the call), [ErrBusy] when another call does not finish in time, [ErrBusinessKYC] in production
// before business KYC, and the refusals of package idempotency.
func (s *Service) Provision(ctx context.Context, tenantID uuid.UUID, in NewAccount, key idempotency.Request) (Provisioned, error) {
	now := s.Clock.Now()
	if kept, err := idempotency.Find(ctx, s.Pool, now, key); err != nil || kept != nil {
		return Provisioned{Result: idempotency.Repeated(kept)}, err // even when its expiresAt has passed by now
	}
	if err := s.validate(&in, now); err != nil {
		return Provisioned{}, err
	}
	r, err := s.reserve(ctx, tenantID, in, key)
	if errors.Is(err, errWait) {
		leave, busy := s.waiters.enter(ctx, waitedFor{tenantID, in.ExternalRef})
		if busy != nil {
			return Provisioned{}, busy
		}
		defer leave()
		for errors.Is(err, errWait) {
			_ = clock.Sleep(ctx, provisionPoll)
			r, err = s.reserve(ctx, tenantID, in, key)
		}
		if err != nil && ctx.Err() != nil { // its time ended while it waited
			return Provisioned{}, ErrBusy
		}
	}
	if err != nil || r.Answer.Status != 0 {
		return r.Provisioned, err
	}
	return s.provide(ctx, r, in)
}

// reserve finds the kept answer or the finished account, or takes the lease of its row, writing it
// first where there is none. It also locks the customer's row, which admits one caller with the
// same reference at a time.
func (s *Service) reserve(ctx context.Context, tenantID uuid.UUID, in NewAccount, key idempotency.Request) (r reservation, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		r = reservation{at: now, lease: now.Add(provisionLease), key: key}
		kept, err := idempotency.Begin(ctx, tx, now, key)
		if err != nil {
			return err
		}
		if kept != nil {
			r.Result = idempotency.Repeated(kept)
			return nil
		}
		if s.Production {
			var kyc string
			if err := tx.QueryRow(ctx, `SELECT kyc_status FROM tenants WHERE id = $1`, tenantID).Scan(&kyc); err != nil {
				return err
			}
			if kyc != "verified" {
				return ErrBusinessKYC
			}
		}
		if in.CallbackURL != nil {
			if err := s.EnsureSecret(ctx, tx, tenantID); err != nil {
				return err
			}
		}
		customerID, err := customer.Ensure(ctx, tx, s.Box, now, customer.NewCustomer{TenantID: tenantID, ExternalRef: in.ExternalRef, Name: in.Name, BVN: in.BVN})
		suspended := errors.Is(err, customer.ErrSuspended)
		if err != nil && !suspended {
			return err
		}
		found, err := s.retake(ctx, tx, &r, tenantID, in, now)
		switch {
		case suspended && (err == nil && r.Status != Active || errors.Is(err, ErrExists) || errors.Is(err, errWait)): // what it has stays open
			return customer.ErrSuspended
		case err != nil:
			return err
		case r.Status == Active:
			return r.answer(ctx, tx, now)
		}
		if err := in.Standing.Check(ctx, tx); err != nil { // it may have waited for another caller
			return err
		}
		if err := idempotency.Reserve(ctx, tx, now, key); err != nil {
			return err
		}
		if !found {
			r.Account = Account{ID: clock.NewID()} // by it, the newest is found
			err = tx.QueryRow(ctx, `
				INSERT INTO accounts AS a (id, tenant_id, customer_id, account_ref, provider, bank_account_name, status, type, callback_url,
					expected_amount, expires_at, leased_until, created_at, updated_at, policy)
				VALUES ($1, $2, $3, $4, $5, $6, 'provisioning', $7, $8, $9::numeric, $10, $11, $12, $12, $13) RETURNING `+columns,
				r.ID, tenantID, customerID, in.ExternalRef, s.Bank.Name(), in.Name, in.Mode, in.CallbackURL, in.ExpectedAmount, in.ExpiresAt,
				r.lease, now, in.Policy).Scan(r.fields()...)
		}
		if err == nil && in.By != nil { // also who takes up a row that somebody else has begun
			err = audit.Write(ctx, tx, now, in.By.Entry("account.open", "account:"+r.ID.String(), opened{in.ExternalRef, in.Name, in.Mode}).Of(tenantID))
		}
		failpoint.At("account/before-reserve-commit")
		return err
	})
	if err == nil && r.Answer.Status == 0 {
		failpoint.At("account/after-reserve-commit")
	}
	return r, err
}

// opened is what the audit log has of an account that a member asked for.
type opened struct{ Ref, Name, Type string }

// retake looks for a row of the same reference: a finished dedicated account is the answer; an
// unfinished row whose lease is free becomes ours. A one-time row is taken up only by a request for
// the very same account; of those the unfinished alone (a precedence of 0) are looked at.
func (s *Service) retake(ctx context.Context, tx pg.Tx, r *reservation, tenantID uuid.UUID, in NewAccount, now time.Time) (bool, error) {
	var lease *time.Time
	err := tx.QueryRow(ctx, `
		SELECT `+columns+`, a.leased_until FROM accounts a
		WHERE a.tenant_id = $1 AND a.account_ref = $2 AND a.type = $3 AND a.precedence <= CASE $3 WHEN 'onetime' THEN 0 ELSE 3 END AND (a.type = 'dedicated'
			OR (coalesce(a.leased_until, '-infinity') <= $4 AND a.expected_amount IS NOT DISTINCT FROM $5::numeric AND a.expires_at IS NOT DISTINCT FROM $6))
		ORDER BY a.id LIMIT 1 FOR UPDATE`, tenantID, in.ExternalRef, in.Mode, now, in.ExpectedAmount, in.ExpiresAt).
		Scan(append(r.fields(), &lease)...)
	switch {
	case err != nil:
		return false, pg.OrNone(err, nil)
	case r.Status == Active:
		return true, nil
	case r.Status == Expired:
		return false, ErrExists
	case lease != nil && lease.After(now):
		return false, errWait
	}
	return true, tx.QueryRow(ctx, `
		UPDATE accounts a SET bank_account_name = $2, callback_url = $3, expected_amount = $4::numeric, leased_until = $5, updated_at = $6, policy = $7
		WHERE id = $1 RETURNING `+columns, r.ID, in.Name, in.CallbackURL, in.ExpectedAmount, r.lease, now, in.Policy).Scan(r.fields()...)
}

// provide calls the bank with no transaction open and records its answer. A call without an answer
// does no harm: the reference is the row's own id, and the next try asks the bank what it has under
// that reference.
func (s *Service) provide(ctx context.Context, r reservation, in NewAccount) (Provisioned, error) {
	failpoint.At("account/before-create")
	got, err := s.Bank.CreateAccount(ctx, provider.NewAccount{
		Ref: r.ID.String(), Name: in.Name, BVN: in.BVN.Reveal(), ExpectedAmount: in.ExpectedAmount, ExpiresAt: in.ExpiresAt,
	})
	failpoint.At("account/after-create")
	switch {
	case err != nil:
	case got.Ref != r.ID.String(): // its number would be somebody else's
		err = fmt.Errorf("the bank answered with the account of another reference, %q", got.Ref)
	case got.Closed: // nobody could pay in; an operator can free the reference ([CloseByHand])
		err = errors.New("the bank has the account, but it is closed there")
	case !numberForm.MatchString(got.Number):
		err = fmt.Errorf("the bank answered with the account number %q", got.Number)
	}
	if err == nil {
		err = s.finish(ctx, &r, got, in.Standing)
	}
	if pg.IsUnique(err, "accounts_number") {
		if err = s.freeNumber(ctx, got.Number); err == nil {
			err = s.finish(ctx, &r, got, in.Standing)
		}
	}
	if err == nil {
		return r.Provisioned, nil
	}
	// Lease and key are released even when the caller has gone, so that the next call need not wait
	// for them to expire.
	free := context.WithoutCancel(ctx)
	_, rowErr := s.Pool.Exec(free, `
		UPDATE accounts SET leased_until = NULL, last_error = $3 WHERE id = $1 AND leased_until = $2`,
		r.ID, r.lease, err.Error())
	err = errors.Join(err, rowErr, idempotency.Release(free, s.Pool, r.at, r.key))
	if errs.As(err) != nil {
		return Provisioned{}, err
	}
	return Provisioned{}, fmt.Errorf("%w (%w)", ErrProvider, err)
}

// finish makes the row an account: number, history, balance, and for a one-time account the
// deadline as due work.
func (s *Service) finish(ctx context.Context, r *reservation, got provider.Account, standing audit.Standing) error {
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		err := tx.QueryRow(ctx, `
			UPDATE accounts a SET status = 'active', bank_account_number = $3, bank_name = $4, leased_until = NULL,
				last_error = '', updated_at = $5
			WHERE id = $1 AND status = 'provisioning' AND leased_until = $2 RETURNING `+columns, r.ID, r.lease, got.Number, got.BankName, now).
			Scan(r.fields()...)
		if err != nil {
			return pg.OrNone(err, ErrBusy) // the lease ran out, and another call has the row
		}
		if err := standing.Check(ctx, tx); err != nil { // it has waited for the bank
			return err
		}
		if err := ledger.OpenAccount(ctx, tx, r.TenantID, r.ID); err != nil {
			return err
		}
		if err := writeHistory(ctx, tx, now, r.ID, nil, Active, "provisioned"); err != nil {
			return err
		}
		if r.ExpiresAt != nil {
			deadline := work.Item{Kind: work.Expire, ID: r.ID, TenantID: r.TenantID, DueAt: *r.ExpiresAt}
			if err := work.Schedule(ctx, tx, deadline); err != nil {
				return err
			}
		}
		err = r.answer(ctx, tx, now)
		failpoint.At("account/before-provide-commit")
		return err
	})
	if err == nil {
		failpoint.At("account/after-provide-commit")
	}
	return err
}

// freeNumber closes, at the bank and here, the expired account that still has a number which the
// bank has issued again. An active account keeps its number: the bank has then given one number to
// two accounts, and a payment could be for either.
func (s *Service) freeNumber(ctx context.Context, number string) error {
	var id uuid.UUID
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		err := tx.QueryRow(ctx, `
			SELECT id FROM accounts
			WHERE provider = $1 AND bank_account_number = $2 AND closed_at IS NULL AND (status = 'expired' OR expires_at <= $3)
			FOR NO KEY UPDATE`, s.Bank.Name(), number, now).Scan(&id)
		if err == nil {
			_, err = work.Expedite(ctx, tx, work.Expire, now, id)
		}
		return err
	})
	if err != nil {
		return pg.OrNone(err, fmt.Errorf("the bank has issued the number %s again, which an active account has", number))
	}
	return s.AdvanceExpiry(ctx, id)
}

func writeHistory(ctx context.Context, tx pg.Tx, now time.Time, id uuid.UUID, from *Status, to Status, reason string) error {
	_, err := tx.Exec(ctx, `INSERT INTO account_history (id, account_id, from_status, to_status, reason, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
		uuid.Must(uuid.NewV7()), id, from, to, reason, now)
	return err
}
