package payment

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/account"
	"ajo/internal/audit"
	"ajo/internal/compact"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/page"
	"ajo/internal/pg"
	"ajo/ledger"
)

// Refusals of an assignment and of a list.
var (
	ErrNotMisdirected = errs.New(errs.Unprocessable, "event is not misdirected")
	ErrFilter         = errs.New(errs.Invalid, "unknown event category or status")
)

// EventRecord is an inbound event as the misdirected list shows it; its JSON form is the wire's.
type EventRecord struct {
	ID             uuid.UUID
	ProviderTxnRef string
	SignatureValid bool
	Status         Status
	Category       Category
	ErrorMessage   string
	RetryCount     int
	ReceivedAt     time.Time
	ProcessedAt    *time.Time
}

// InboundEvent is an event record as operators see it. The body is not part of it.
type InboundEvent struct {
	// ErrorMessage: why it was not posted; on a processed event, why it had to be assigned.
	EventRecord
	Source        string
	EventType     string
	Amount        *money.Amount
	Fee           *money.Amount
	Currency      string
	Alias         string // the reference that was paid, as the event has it
	AliasNumber   string // the number that was paid, where the event has it
	SenderName    string // as the event has it
	Narration     string
	OccurredAt    *time.Time
	TenantID      *uuid.UUID
	AccountID     *uuid.UUID // posted to, or refused by (an expired one)
	NextAttemptAt *time.Time
	LastError     string
	// the event that it may repeat: it is not posted until that is decided
	LookAlikeOf *uuid.UUID
	// the event with the reversed credit that this one replaces
	Replaces *uuid.UUID
	// of a misdirected one: the refund that has paid it back, or will; empty: some of it is in
	// suspense
	ReturnedBy string `json:",omitempty"`
	// the payer by the bank's own record, where that has confirmed the payment; not in lists
	Payer *ledger.Sender `db:"-"`
	// the body as received; not in lists, and empty once it is archived
	Body string `db:"-" json:",omitempty"`
}

// eventColumns are those of an [InboundEvent], and where they are read.
const eventColumns = `id, provider_txn_ref, signature_valid, status, category, error_message, retry_count, received_at, processed_at,
	source, event_type, amount, fee, currency, alias, alias_number, sender_name, narration, occurred_at, tenant_id, account_id,
	(SELECT min(w.due_at) FROM work w WHERE w.id = e.id AND w.kind IN ('ingest', 'confirm')),
	coalesce((SELECT max(nullif(w.last_error, '')) FROM work w WHERE w.id = e.id AND w.kind IN ('ingest', 'confirm')), last_error), look_alike_of, replaces,
	coalesce(CASE WHEN e.misdirected THEN (SELECT max(t.merchant_tx_ref) ` + returns + ` HAVING sum(coalesce(t.paid_amount, t.amount)) >= max(l.amount)) END, '')
	FROM inbound_events e`

// ofTransaction is, as SQL, the condition for authentic events of the transaction @ref. The ids
// that a forged event names are not stored.
const ofTransaction = `id = ANY(ARRAY(SELECT event_id FROM event_keys WHERE transaction = event_key(nullif(@ref, '')))) AND provider_txn_ref = @ref`

// EventFilter narrows a list of events; empty fields do not.
type EventFilter struct {
	Category       Category
	Status         Status
	ProviderTxnRef string
	// of the account that was paid: as the event has it, or of the account that it was posted to
	Number string
	Amount *money.Amount // gross, as the payer sent it
	Payer  string        // a part of the payer's name, as the event has it, in any case
	// the interbank switch's id of the payment, whole
	Session string
	// paid at or after From, and before To, by the event's own time; zero: without that end
	From, To time.Time
}

// Events returns a page of the inbound events, newest first. For operators. A bad cursor is
// [page.ErrCursor], an unknown category or status [ErrFilter].
func (s *Service) Events(ctx context.Context, f EventFilter, r page.Request) ([]InboundEvent, page.Info, error) {
	switch f.Category {
	case "", CategoryPayment, CategoryMisdirected, CategorySigInvalid, CategoryNonPayment, CategoryProcessingError:
	default:
		return nil, page.Info{}, ErrFilter
	}
	if !Transitions.Knows(f.Status) {
		return nil, page.Info{}, ErrFilter
	}
	list := pg.List[InboundEvent]{Name: page.Events, ID: func(e InboundEvent) uuid.UUID { return e.ID }, Row: pgx.RowToStructByPos[InboundEvent]}
	scan := `inbound_events WHERE true`
	switch {
	case f.ProviderTxnRef != "":
		scan = `inbound_events WHERE ` + ofTransaction
	case f.Category == CategoryMisdirected:
		scan = `inbound_events WHERE misdirected`
	case f.Category == CategorySigInvalid:
		scan = `inbound_events WHERE forged`
	}
	return list.Filtered(ctx, s.Pool, r, scan, `
		SELECT `+eventColumns+`
		WHERE id < @before AND id >= @floor AND (@category = '' OR category = @category)
			AND (@category <> 'misdirected' OR misdirected) AND (@category <> 'sig_invalid' OR forged) AND (@status = '' OR status = @status)
			AND (@ref = '' OR `+ofTransaction+`)
			AND (@number = '' OR alias_number = @number OR account_id IN (SELECT a.id FROM accounts a WHERE a.bank_account_number = @number))
			AND (@payer = '' OR strpos(lower(sender_name), lower(@payer)) > 0) AND (@session = '' OR session_id = @session)
			AND (@amount::numeric IS NULL OR amount = @amount) AND (@from::timestamptz IS NULL OR occurred_at >= @from) AND (@to::timestamptz IS NULL OR occurred_at < @to)
		ORDER BY id DESC LIMIT @limit`, pgx.NamedArgs{
		"category": string(f.Category), "status": string(f.Status), "ref": f.ProviderTxnRef, "number": f.Number, "amount": f.Amount, "payer": f.Payer, "session": f.Session,
		"from": pg.OrNull(f.From), "to": pg.OrNull(f.To),
	})
}

// InboundEvent returns one event, for operators, or [ErrEventNotFound].
func (s *Service) InboundEvent(ctx context.Context, id uuid.UUID) (InboundEvent, error) {
	e, err := pg.One(ctx, s.Pool, pgx.RowToStructByPos[InboundEvent], ErrEventNotFound, `SELECT `+eventColumns+` WHERE id = $1`, id)
	if err == nil && e.Category == CategoryPayment {
		e.Payer, err = ledger.ReadSender(ctx, s.Pool, id)
	}
	if err == nil {
		e.Body, err = s.body(ctx, id)
	}
	return e, err
}

// body returns an event's body as received; empty: it is archived.
func (s *Service) body(ctx context.Context, id uuid.UUID) (string, error) {
	var stored []byte
	err := s.Pool.QueryRow(ctx, `SELECT body FROM event_bodies WHERE event_id = $1`, id).Scan(&stored)
	if err != nil && !pg.IsNoRows(err) {
		return "", err
	}
	body, err := compact.FullEvent(stored)
	return string(body), err
}

// Misdirected returns a page of the payments that matched no account, of the whole service, newest
// first. For sessions only.
func (s *Service) Misdirected(ctx context.Context, r page.Request) ([]EventRecord, page.Info, error) {
	list := pg.List[EventRecord]{Name: page.Misdirected, ID: func(e EventRecord) uuid.UUID { return e.ID }, Row: func(row pgx.CollectableRow) (EventRecord, error) {
		e, err := pgx.RowToStructByPos[InboundEvent](row)
		return e.EventRecord, err
	}}
	return list.Page(ctx, pg.Reader(ctx, s.Pool), r, `
		SELECT `+eventColumns+` WHERE misdirected AND id < @before ORDER BY id DESC LIMIT @limit`, nil)
}

// Destination names the account that a misdirected payment is to be posted to: by the account's ID,
// or by its reference as in a path of its tenant.
type Destination struct {
	AccountID  uuid.UUID
	TenantID   uuid.UUID
	AccountRef string
}

func (d Destination) find(ctx context.Context, q pg.Querier) (uuid.UUID, error) {
	if d.AccountID != uuid.Nil {
		return d.AccountID, nil
	}
	a, err := account.Find(ctx, q, d.TenantID, d.AccountRef)
	return a.ID, err
}

// Assignment is what [Service.Assign] would do.
type Assignment struct {
	Event         InboundEvent
	Again         bool // it was posted before, and its credit is reversed
	AccountID     uuid.UUID
	AccountRef    string
	AccountNumber string
	AccountStatus account.Status
	AccountType   account.Type
	TenantID      uuid.UUID
	TenantName    string
}

// PlanAssign says what an assignment would do, with the refusals of [Service.Assign], and changes
// nothing.
func (s *Service) PlanAssign(ctx context.Context, eventID uuid.UUID, to Destination) (Assignment, error) {
	e, err := s.InboundEvent(ctx, eventID)
	if err != nil {
		return Assignment{}, err
	}
	record, err := s.mispostedRecord(ctx, e)
	if err == nil && record == nil {
		err = refunding(ctx, s.Pool, eventID)
	}
	if err != nil {
		return Assignment{}, err
	}
	id, err := to.find(ctx, s.Pool)
	if err != nil {
		return Assignment{}, err
	}
	a := Assignment{Event: e, Again: record != nil}
	err = s.Pool.QueryRow(ctx, `
		SELECT a.id, a.account_ref, a.bank_account_number, a.status, a.type, t.id, t.name
		FROM accounts a JOIN tenants t ON t.id = a.tenant_id WHERE a.id = $1 AND a.status <> 'provisioning'`, id).
		Scan(&a.AccountID, &a.AccountRef, &a.AccountNumber, &a.AccountStatus, &a.AccountType, &a.TenantID, &a.TenantName)
	return a, pg.OrNone(err, account.ErrNotFound)
}

// Assign posts a misdirected payment to the account that an operator names, active or expired: as
// posting does, with a credit, a delivery where there is a URL, and a confirmation that is due
// soon. The money leaves the suspense account. None of it can be paid out before the bank's record
// confirms the payment. A payment whose credit is reversed, because it was posted to the wrong
// account, is posted by another event, its replacement: the bank's own record must say success at
// this moment, with the same sums. [ErrEventNotFound]; [ErrNotMisdirected] in any other category,
// and for all but the first of several simultaneous callers; [ErrRefunding]; account.ErrNotFound,
// also while the account is being provisioned; and a refusal that says what the bank's record has.
func (s *Service) Assign(ctx context.Context, eventID uuid.UUID, to Destination, by audit.By) (Posted, error) {
	if err := by.Check(); err != nil {
		return Posted{}, err
	}
	found, err := s.InboundEvent(ctx, eventID)
	if err != nil {
		return Posted{}, err
	}
	record, err := s.mispostedRecord(ctx, found)
	if err != nil {
		return Posted{}, err
	}
	var e *posting
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) (err error) {
		now := s.Clock.Now()
		switch e, err = lockForPosting(ctx, tx, eventID); {
		case errors.Is(err, ErrNotMisdirected) && record != nil: // the lock stays
			e, err = s.assignMisposted(ctx, tx, now, eventID, to, record)
		case err == nil:
			err = s.assignMisdirected(ctx, tx, now, e, to)
		}
		if err != nil {
			return err
		}
		return audit.Write(ctx, tx, now, by.Entry("events.assign", "event:"+eventID.String(), struct {
			AccountID, TenantID uuid.UUID
			AccountRef          string
			Amount, Fee         money.Amount
			ProviderTxnRef      string
			Alias, AliasNumber  string
			Why                 string
			Replacement         *uuid.UUID `json:",omitempty"`
		}{e.target.ID, e.target.TenantID, e.target.AccountRef, *e.Amount, *e.Fee, e.TxnRef, e.Alias, e.Number, cmp.Or(e.Problem, found.LastError), e.other(eventID)}))
	})
	if err != nil {
		return Posted{}, err
	}
	return e.posted, nil
}

// lockForPosting locks a misdirected event. Its fields are fit to post, since posting makes all
// its other checks before it looks for an account.
func lockForPosting(ctx context.Context, tx pg.Tx, id uuid.UUID) (*posting, error) {
	if err := lockEvent(ctx, tx, id, CategoryMisdirected, ErrNotMisdirected); err != nil {
		return nil, err
	}
	row, err := pg.One(ctx, tx, pgx.RowToStructByPos[eventRow], ErrEventNotFound, `SELECT `+pg.Names[eventRow]()+` FROM inbound_events WHERE id = $1`, id)
	return &posting{eventRow: row}, err
}

// assignTo makes the named account the event's target, and locks it. The event keeps the reason why
// it was misdirected.
func (e *posting) assignTo(ctx context.Context, tx pg.Tx, to Destination) error {
	id, err := to.find(ctx, tx)
	if err != nil {
		return err
	}
	if e.target, err = targetOf(ctx, tx, id); err != nil {
		return err
	}
	e.assigned = true
	e.decided(CategoryPayment, e.Problem)
	return nil
}
