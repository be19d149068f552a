package pg_test

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/testenv"
)

type status string

// every has a column of each kind.
type every struct {
	*keyed
	Status  status        `pg:"status"`
	Note    *string       `pg:"note"`
	At      time.Time     `pg:"at"`
	Until   *time.Time    `pg:"until"`
	Group   *uuid.UUID    `pg:"grp"`
	Good    bool          `pg:"good"`
	Small   int32         `pg:"small"`
	Number  int           `pg:"number"`
	Perhaps *int32        `pg:"perhaps"`
	Amount  money.Amount  `pg:"amount,numeric"`
	Fee     *money.Amount `pg:"fee,numeric"`
	Body    []byte        `pg:"body"`
	Digest  [32]byte      `pg:"digest"`
	Left    string        // no column
}

type keyed struct {
	ID uuid.UUID `pg:"id"`
}

// What goes in by columns comes out by rows, in their order, NULLs as they were.
func TestColumns(t *testing.T) {
	t.Parallel()
	e := testenv.New(t)
	e.Exec(`CREATE TABLE every (id uuid, status text, note text, at timestamptz, until timestamptz, grp uuid, good bool, small int, number int,
		perhaps int, amount numeric(20,2), fee numeric(20,2), body bytea, digest bytea)`)
	at := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	full := &every{
		keyed: &keyed{uuid.New()}, Status: "paid", Note: new("o'{,}\"\\"), At: at, Until: new(at.Add(time.Hour)), Group: new(uuid.New()), Good: true, Small: 7, Number: 8,
		Perhaps: new(int32(9)), Amount: money.Must("9999999.99"), Fee: new(money.Must("0.01")), Body: []byte{0, 1}, Digest: sha256.Sum256(nil),
	}
	bare := &every{keyed: &keyed{uuid.New()}, At: at, Amount: money.Must("1.00")}
	const read = `SELECT id, status, note, at, until, grp, good, small, number, perhaps, amount, fee, body, digest`
	scan := func(r pgx.CollectableRow) (*every, error) {
		v := &every{keyed: &keyed{}}
		var digest []byte
		err := r.Scan(&v.ID, &v.Status, &v.Note, &v.At, &v.Until, &v.Group, &v.Good, &v.Small, &v.Number, &v.Perhaps, &v.Amount, &v.Fee, &v.Body, &digest)
		copy(v.Digest[:], digest)
		return v, err
	}
	rows := []*every{full, bare, full}
	got, err := pg.Collect(t.Context(), e.Pool, scan, read+` FROM `+pg.Unnest[every](2, "r")+` WHERE small = $1 OR n = 2 ORDER BY n`, pg.Columns(rows, 7)...)
	require.NoError(t, err)
	require.Equal(t, rows, got)

	_, err = e.Pool.Exec(t.Context(), pg.Insert[every]("every", 1), pg.Columns(rows)...)
	require.NoError(t, err)
	got, err = pg.Collect(t.Context(), e.Pool, scan, read+` FROM every ORDER BY small`)
	require.NoError(t, err)
	require.Equal(t, []*every{bare, full, full}, got)

	none, err := pg.Collect(t.Context(), e.Pool, scan, read+` FROM `+pg.Unnest[every](1, "r"), pg.Columns([]every{})...)
	require.NoError(t, err)
	require.Empty(t, none)
}

// A field that no array can be made of is found when the statement is made, which is at the start.
func TestColumnsOfWhatIsNone(t *testing.T) {
	t.Parallel()
	type bad struct {
		M map[string]string `pg:"m"`
	}
	type hidden struct {
		id uuid.UUID `pg:"id"`
	}
	require.Panics(t, func() { pg.Unnest[bad](1, "r") })
	require.Panics(t, func() { pg.Columns([]hidden{{id: uuid.New()}}) })
}

// event has the columns of an inbound event, of which batches of 200 are stored.
type event struct {
	ID        uuid.UUID     `pg:"id"`
	Source    string        `pg:"source"`
	Valid     bool          `pg:"signature_valid"`
	Authentic bool          `pg:"authentic"`
	Request   string        `pg:"request_id"`
	Txn       string        `pg:"provider_txn_ref"`
	Type      string        `pg:"event_type"`
	Status    status        `pg:"status"`
	Category  status        `pg:"category"`
	Problem   string        `pg:"error_message"`
	Amount    *money.Amount `pg:"amount,numeric"`
	Fee       *money.Amount `pg:"fee,numeric"`
	Currency  string        `pg:"currency"`
	Alias     string        `pg:"alias"`
	Number    string        `pg:"alias_number"`
	Sender    string        `pg:"sender_name"`
	Narration string        `pg:"narration"`
	Occurred  *time.Time    `pg:"occurred_at"`
	Digest    [32]byte      `pg:"digest"`
	Body      []byte        `pg:"body"`
	Next      *time.Time    `pg:"next_attempt_at"`
	Received  time.Time     `pg:"received_at"`
	Trace     string        `pg:"traceparent"`
	Bank      string        `pg:"sender_bank"`
	Session   string        `pg:"session_id"`
	Alike     *uuid.UUID    `pg:"look_alike_of"`
}

// BenchmarkColumns compares the arrays of a batch of 200 events with the same, made by hand as each
// statement once did.
func BenchmarkColumns(b *testing.B) {
	events := make([]*event, 200)
	now := time.Now()
	for i := range events {
		events[i] = &event{
			ID: uuid.New(), Source: "webhook", Valid: true, Authentic: true, Request: fmt.Sprint("request-", i), Txn: fmt.Sprint("txn-", i), Type: "payment_success",
			Status: "received", Amount: new(money.Must("5000.00")), Fee: new(money.Must("50.00")), Currency: "NGN", Number: "0123456789", Sender: "Ada Obi",
			Occurred: &now, Body: make([]byte, 900), Next: &now, Received: now, Bank: "Access", Session: "000013",
		}
	}
	b.Run("tags", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = pg.Columns(events)
		}
	})
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = byHand(events)
		}
	})
}

func byHand(events []*event) []any {
	var c struct {
		id                                                                            []uuid.UUID
		source, request, txn, typ, status, category, problem, currency, alias, number []string
		sender, bank, narration, trace, session                                       []string
		alike                                                                         []*uuid.UUID
		valid, authentic                                                              []bool
		amount, fee                                                                   []*string
		digest, body                                                                  [][]byte
		occurred, next                                                                []*time.Time
		received                                                                      []time.Time
	}
	text := func(a *money.Amount) *string { return new(a.String()) }
	for _, e := range events {
		c.id, c.source, c.valid, c.authentic = append(c.id, e.ID), append(c.source, e.Source), append(c.valid, e.Valid), append(c.authentic, e.Authentic)
		c.request, c.txn, c.typ = append(c.request, e.Request), append(c.txn, e.Txn), append(c.typ, e.Type)
		c.status, c.category, c.problem = append(c.status, string(e.Status)), append(c.category, string(e.Category)), append(c.problem, e.Problem)
		c.amount, c.fee, c.currency = append(c.amount, text(e.Amount)), append(c.fee, text(e.Fee)), append(c.currency, e.Currency)
		c.alias, c.number, c.sender = append(c.alias, e.Alias), append(c.number, e.Number), append(c.sender, e.Sender)
		c.bank, c.narration, c.occurred = append(c.bank, e.Bank), append(c.narration, e.Narration), append(c.occurred, e.Occurred)
		c.digest, c.body = append(c.digest, e.Digest[:]), append(c.body, e.Body)
		c.next, c.received = append(c.next, e.Next), append(c.received, e.Received)
		c.session, c.alike, c.trace = append(c.session, e.Session), append(c.alike, e.Alike), append(c.trace, e.Trace)
	}
	return []any{
		c.id, c.source, c.valid, c.authentic, c.request, c.txn, c.typ, c.status, c.category, c.problem, c.amount, c.fee, c.currency, c.alias, c.number,
		c.sender, c.narration, c.occurred, c.digest, c.body, c.next, c.received, c.trace, c.bank, c.session, c.alike,
	}
}
