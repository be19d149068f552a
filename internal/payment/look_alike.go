package payment

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/money"
	"ajo/internal/pg"
)

// A payment has one transaction id, by which it is posted once. If the bank's list spells that id
// differently from the event, the same payment has two ids, and would be posted twice. So there is
// a second key: the session id of the interbank switch if both have one, else account, sum and
// time. Two payments with the same second key are distinct only if the bank's list has both, each
// under its own id; reconciliation decides that.

// AlikeWithin is how far the times of one payment may lie apart in event and list.
const AlikeWithin = time.Minute

// candidate is an event that is about to be posted, in heldBackSQL.
type candidate struct {
	ID        uuid.UUID    `pg:"id"`
	AccountID uuid.UUID    `pg:"account"` // uuid.Nil: none has it
	Number    string       `pg:"number"`  // that the event says was paid
	Amount    money.Amount `pg:"amount,numeric"`
	At        time.Time    `pg:"at"`
	Ref       string       `pg:"ref"`
	Session   string       `pg:"session"`
}

// heldBackSQL finds, for each event that is about to be posted, a payment from the bank's list with
// another transaction id but the same account (or number), the same sum, about the same time, and
// no different session id.
var heldBackSQL = `
		SELECT n.id, r.id, r.provider_txn_ref
		FROM ` + pg.Unnest[candidate](2, "n") + `
		LEFT JOIN accounts a ON a.id = n.account
		JOIN LATERAL (
			SELECT e.id, e.provider_txn_ref FROM listed_payments l JOIN inbound_events e ON e.id = ANY(ARRAY[l.event_id])
			WHERE l.alias_number = coalesce(a.bank_account_number, n.number) AND l.amount = n.amount AND l.occurred_at BETWEEN n.at - $1::interval AND n.at + $1::interval
				AND e.provider_txn_ref <> n.ref AND (e.status IN ('received', 'processed') OR e.misdirected) AND (e.session_id = '' OR n.session = '' OR e.session_id = n.session)
			LIMIT 1) r ON true`

// alikeSQL reads, of the transactions $1 whose payment is held back as a repeat, the transaction of
// the payment that it may repeat.
const alikeSQL = `SELECT m.ref, o.provider_txn_ref FROM ` + eventsOf + ` JOIN inbound_events o ON o.id = ANY(ARRAY[e.look_alike_of])
	WHERE o.provider_txn_ref <> ''`

// alikeOf returns, by the transactions of payments that are held back, those of the payments that
// they may repeat: what the bank says of one, it may say of the other.
func alikeOf(ctx context.Context, q pg.Querier, txnRefs []string) (map[string]string, error) {
	of := map[string]string{}
	var held, like string
	_, err := pgx.ForEachRow(pg.Rows(ctx, q, alikeSQL, txnRefs), []any{&held, &like}, func() error {
		of[held] = like
		return nil
	})
	return of, err
}

// holdRepeats holds back events that may repeat a payment which the bank's list brought earlier
// under another id. The next reconciliation posts those that the list shows to be separate
// payments.
func (s *Service) holdRepeats(ctx context.Context, tx pg.Tx, events []*posting) error {
	var rows []candidate
	byID := map[uuid.UUID]*posting{}
	for _, e := range events {
		if e.result.Category != CategoryPayment && e.result.Category != CategoryMisdirected || e.Source != sourceWebhook {
			continue
		}
		byID[e.ID] = e
		c := candidate{ID: e.ID, Number: e.Number, Amount: *e.Amount, At: *e.OccurredAt, Ref: e.TxnRef, Session: e.Session}
		if e.target != nil {
			c.AccountID = e.target.ID
		}
		rows = append(rows, c)
	}
	if len(rows) == 0 {
		return nil
	}
	found := pg.Rows(ctx, tx, heldBackSQL, pg.Columns(rows, AlikeWithin)...)
	var id, other uuid.UUID
	var ref string
	_, err := pgx.ForEachRow(found, []any{&id, &other, &ref}, func() error {
		e := byID[id]
		e.result.LookAlike = new(other)
		e.decided(CategoryProcessingError, LookAlike{EventID: other, TxnRef: ref}.Why())
		s.Log.WarnContext(ctx, "a payment is held back, as it may be a repeat", slog.String("alert", "look_alike"), slog.String("event", id.String()), slog.String("like", other.String()))
		return nil
	})
	return err
}
