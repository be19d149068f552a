package transfer

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/audit"
	"ajo/internal/batch"
	"ajo/internal/errs"
	"ajo/internal/freeze"
	"ajo/internal/page"
	"ajo/internal/pg"
)

const maxLabel = 100 // characters

// Refusals of a beneficiary, and of a settlement that names one.
var (
	ErrBeneficiary      = errs.New(errs.NotFound, "beneficiary not found")
	ErrBeneficiaryAlone = errs.New(errs.Invalid, "give either beneficiary, or bankCode and accountNumber")
	// ErrLabelMissing is for the edge: a missing label does not mean an empty one
	ErrLabelMissing = errs.New(errs.Invalid, "label is required")
	ErrLabel        = errs.New(errs.Invalid, "label must have at most 100 characters, without control characters")
)

// Beneficiary is a bank account that a tenant has saved to pay out to. An account is a tenant's
// beneficiary once; one that was removed and saved again is another beneficiary.
type Beneficiary struct {
	ID            uuid.UUID `json:"id"`
	Label         string    `json:"label"` // the tenant's own; empty: none
	BankCode      string    `json:"bankCode"`
	BankName      string    `json:"bankName"`
	AccountNumber string    `json:"accountNumber"`
	AccountName   string    `json:"accountName"` // the holder, as the bank named it at saving
	Exempt        bool      `json:"exempt"`      // payouts to its account need no approval
	SavedBy       string    `json:"savedBy"`     // session:<e-mail> or key:<id>
	SavedAt       time.Time `json:"savedAt"`
}

// beneficiaryColumns are those of a Beneficiary, in its order.
const beneficiaryColumns = `id, label, bank_code, bank_name, account_number, account_name, exempt, saved_by, saved_at`

func beneficiaryTarget(id uuid.UUID) string { return "beneficiary:" + id.String() }

// NewBeneficiary is what a tenant saves.
type NewBeneficiary struct {
	BankCode, AccountNumber string
	Label                   string
}

// checkLabel checks a label, without the spaces around it.
func checkLabel(label string) (string, error) {
	label = strings.TrimSpace(label)
	if !errs.Plain(label, maxLabel) {
		return "", ErrLabel
	}
	return label, nil
}

// SaveBeneficiary saves an account that the bank knows, with the holder that the bank names, and
// reports whether it is new. An account that is saved already is returned unchanged, whatever the
// label. Needs an API key or a session. [ErrBankCode], [ErrAccountNumber], [ErrLabel],
// [ErrUnknownBank]; and those of [Service.Lookup], with which nothing is saved.
func (s *Service) SaveBeneficiary(ctx context.Context, tenantID uuid.UUID, n NewBeneficiary, maker Maker) (b Beneficiary, isNew bool, err error) {
	label, err := checkLabel(n.Label)
	switch {
	case !bankCodeForm.MatchString(n.BankCode):
		return b, false, ErrBankCode
	case !accountForm.MatchString(n.AccountNumber):
		return b, false, ErrAccountNumber
	case err != nil:
		return b, false, err
	}
	bank, known := "", true
	if s.Banks != nil {
		bank, known = s.Banks.name(ctx, n.BankCode)
	}
	if !known {
		return b, false, ErrUnknownBank
	}
	h, err := s.Lookup(ctx, n.BankCode, n.AccountNumber) // no answer: nothing is saved
	if err != nil {
		return b, false, err
	}
	if foldName(h.AccountName) == "" {
		return b, false, ErrBank // the bank has named nobody
	}
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		if err := maker.Standing.Check(ctx, tx); err != nil {
			return err // the bank's answer may have taken a while
		}
		now := s.Clock.Now()
		id := uuid.Must(uuid.NewV7())
		// The update changes nothing: it makes the statement return the account's row, even if
		// another request saves it at the same moment.
		b, err = pg.One(ctx, tx, pgx.RowToStructByPos[Beneficiary], ErrBeneficiary, `
			INSERT INTO beneficiaries AS b (id, tenant_id, bank_code, bank_name, account_number, account_name, label, saved_by, saved_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (tenant_id, bank_code, account_number) WHERE removed_at IS NULL DO UPDATE SET label = b.label
			RETURNING `+beneficiaryColumns, id, tenantID, n.BankCode, bank, n.AccountNumber, h.AccountName, label, maker.By.Actor, now)
		if isNew = b.ID == id; err != nil || !isNew {
			return err
		}
		return audit.Write(ctx, tx, now, maker.By.Entry("beneficiary.save", beneficiaryTarget(id), audit.Change{After: b.shown()}).Of(tenantID))
	})
	return b, isNew, err
}

// beneficiaryShown is what the audit log keeps of a beneficiary.
type beneficiaryShown struct {
	Label         string `json:"label"`
	BankCode      string `json:"bankCode"`
	AccountNumber string `json:"accountNumber"`
	AccountName   string `json:"accountName"`
	Exempt        bool   `json:"exempt,omitempty"`
}

func (b Beneficiary) shown() beneficiaryShown {
	return beneficiaryShown{b.Label, b.BankCode, b.AccountNumber, b.AccountName, b.Exempt}
}

// Beneficiary returns a tenant's beneficiary. [ErrBeneficiary], also for one that was removed.
func (s *Service) Beneficiary(ctx context.Context, tenantID, id uuid.UUID) (Beneficiary, error) {
	return readBeneficiary(ctx, s.Pool, tenantID, id, "")
}

func readBeneficiary(ctx context.Context, q pg.Querier, tenantID, id uuid.UUID, lock string) (Beneficiary, error) {
	return pg.One(ctx, q, pgx.RowToStructByPos[Beneficiary], ErrBeneficiary,
		`SELECT `+beneficiaryColumns+` FROM beneficiaries WHERE id = $1 AND tenant_id = $2 AND removed_at IS NULL `+lock, id, tenantID)
}

// Beneficiaries returns a page of a tenant's beneficiaries, newest first. A bad cursor is
// [page.ErrCursor].
func (s *Service) Beneficiaries(ctx context.Context, tenantID uuid.UUID, r page.Request) ([]Beneficiary, page.Info, error) {
	list := pg.List[Beneficiary]{Name: page.Beneficiaries, ID: func(b Beneficiary) uuid.UUID { return b.ID }, Row: pgx.RowToStructByPos[Beneficiary]}
	return list.Page(ctx, s.Pool, r, `
		SELECT `+beneficiaryColumns+` FROM beneficiaries
		WHERE tenant_id = @tenant AND removed_at IS NULL AND id < @before ORDER BY id DESC LIMIT @limit`, pgx.NamedArgs{"tenant": tenantID})
}

// RenameBeneficiary changes the label. Needs an API key or a session. [ErrLabel], [ErrBeneficiary].
func (s *Service) RenameBeneficiary(ctx context.Context, tenantID, id uuid.UUID, label string, by audit.By) (Beneficiary, error) {
	label, err := checkLabel(label)
	if err != nil {
		return Beneficiary{}, err
	}
	return s.changeBeneficiary(ctx, tenantID, id, by, "beneficiary.rename", func(tx pg.Tx, _ time.Time, b *Beneficiary) error {
		b.Label = label
		_, err := tx.Exec(ctx, `UPDATE beneficiaries SET label = $2 WHERE id = $1`, id, label)
		return err
	})
}

// RemoveBeneficiary removes a beneficiary, and returns it as it was. Payouts that were accepted to
// its account continue. Needs an API key or a session. [ErrBeneficiary], also when it is removed
// already; freeze.ErrAccepting: it is removed, but payouts under way may still count it as saved.
func (s *Service) RemoveBeneficiary(ctx context.Context, tenantID, id uuid.UUID, by audit.By) (Beneficiary, error) {
	b, err := s.changeBeneficiary(ctx, tenantID, id, by, "beneficiary.remove", func(tx pg.Tx, now time.Time, _ *Beneficiary) error {
		_, err := tx.Exec(ctx, `UPDATE beneficiaries SET removed_at = $2 WHERE id = $1`, id, now)
		return err
	})
	if err == nil {
		err = freeze.AwaitAcceptances(ctx, s.Pool)
	}
	return b, err
}

// ExemptBeneficiary sets whether payouts to the beneficiary's account need no approval, for those
// that are accepted from then on. Needs the owner's session, because whoever can exempt an account
// needs nobody's approval. It reports whether anything changed. [ErrBeneficiary];
// freeze.ErrAccepting: the exemption has ended, but payouts under way may still go by it.
func (s *Service) ExemptBeneficiary(ctx context.Context, tenantID, id uuid.UUID, exempt bool, by audit.By) (b Beneficiary, changed bool, err error) {
	b, err = s.changeBeneficiary(ctx, tenantID, id, by, "beneficiary.exempt", func(tx pg.Tx, _ time.Time, b *Beneficiary) error {
		changed = b.Exempt != exempt
		b.Exempt = exempt
		_, err := tx.Exec(ctx, `UPDATE beneficiaries SET exempt = $2 WHERE id = $1`, id, exempt)
		return err
	})
	if err != nil {
		return b, false, err
	}
	if !exempt {
		err = freeze.AwaitAcceptances(ctx, s.Pool)
	}
	return b, changed, err
}

// withBeneficiaries refuses the requests whose beneficiary was removed after it was read, while the
// bank was asked: [ErrBeneficiary]. Whoever removes one from here on waits for this transaction. It
// runs one statement, or none if no request names a beneficiary.
func withBeneficiaries(ctx context.Context, tx pg.Tx, candidates []*acceptance, out []batch.Outcome[Settled]) ([]*acceptance, error) {
	named := map[*acceptance]uuid.UUID{}
	var ids, tenants []uuid.UUID
	for _, c := range candidates {
		if c.order.Beneficiary != "" {
			id, _ := uuid.Parse(c.order.Beneficiary)
			named[c], ids, tenants = id, append(ids, id), append(tenants, c.account.TenantID)
		}
	}
	if len(ids) == 0 {
		return candidates, nil
	}
	saved, err := pg.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `
		SELECT b.id FROM unnest($1::uuid[], $2::uuid[]) AS m (id, tenant) JOIN beneficiaries b ON b.id = ANY(ARRAY[m.id]) AND b.tenant_id = m.tenant
		WHERE b.removed_at IS NULL ORDER BY b.id FOR SHARE OF b`, ids, tenants)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(candidates, func(c *acceptance) bool {
		id, isNamed := named[c]
		if !isNamed || slices.Contains(saved, id) {
			return false
		}
		out[c.at].Err = ErrBeneficiary
		return true
	}), nil
}

// changeBeneficiary calls do for a beneficiary under its lock, and writes a line of the audit log.
func (s *Service) changeBeneficiary(ctx context.Context, tenantID, id uuid.UUID, by audit.By, action string, do func(pg.Tx, time.Time, *Beneficiary) error) (b Beneficiary, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if b, err = readBeneficiary(ctx, tx, tenantID, id, "FOR UPDATE"); err != nil {
			return err
		}
		was := b
		if err := do(tx, now, &b); err != nil {
			return err
		}
		change := audit.Change{Before: was.shown()}
		if b != was {
			change.After = b.shown()
		}
		return audit.Write(ctx, tx, now, by.Entry(action, beneficiaryTarget(id), change).Of(tenantID))
	})
	return b, err
}

// toBeneficiary fills an order with the account and the holder of the beneficiary that it names.
// The bank must name the same holder again.
func (s *Service) toBeneficiary(ctx context.Context, tenantID uuid.UUID, o *Order) error {
	id, _ := uuid.Parse(o.Beneficiary) // uuid.Nil, which no row has, if it is not an id
	b, err := s.Beneficiary(ctx, tenantID, id)
	if err != nil {
		return err
	}
	if o.AccountName != nil && o.holder() != foldName(b.AccountName) {
		return ErrNameMismatch
	}
	o.BankCode, o.AccountNumber, o.AccountName = b.BankCode, b.AccountNumber, &b.AccountName
	return nil
}
