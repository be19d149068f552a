package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ajo/internal/pg"
)

// Keys are the keys of many requests whose effects are one transaction.
type Keys struct {
	now      time.Time
	requests []Request
	locked   []bool
	records  map[keyName]*record
	holder   map[keyName]int // the request that took a key
	kept     []answered      // what Save writes
}

// keyName identifies a key.
type keyName struct {
	tenant uuid.UUID
	key    string
}

func (r Request) keyName() keyName { return keyName{r.tenant, r.key} }

func (r Request) lock() int64 {
	sum := sha256.Sum256([]byte(r.tenant.String() + r.key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// BeginAll takes the keys of many requests inside the transaction that will have their effects. It
// waits for no lock, so the order of the keys does not matter; a key that another transaction has
// is [ErrRunning] for its request only.
func BeginAll(ctx context.Context, tx pg.Tx, now time.Time, requests []Request) (*Keys, error) {
	k := &Keys{now: now, requests: requests, locked: make([]bool, len(requests)), records: map[keyName]*record{}, holder: map[keyName]int{}}
	var which []int
	var locks []int64
	var tenants []uuid.UUID
	var texts []string
	for i, r := range requests {
		if r.Given() {
			which, locks, tenants, texts = append(which, i), append(locks, r.lock()), append(tenants, r.tenant), append(texts, r.key)
		}
	}
	if len(which) == 0 {
		return k, nil
	}
	// Two statements: only a statement that begins after we have the lock sees what its former
	// holder has stored.
	var batch pgx.Batch
	batch.Queue(`SELECT pg_try_advisory_xact_lock(l) FROM unnest($1::bigint[]) WITH ORDINALITY AS k (l, n) ORDER BY n`, locks).Query(func(rows pgx.Rows) error {
		got, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		for n, mine := range got {
			k.locked[which[n]] = mine
		}
		return err
	})
	batch.Queue(recordsSQL, tenants, texts).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var n keyName
			var r record
			if err := rows.Scan(append([]any{&n.tenant, &n.key}, r.fields()...)...); err != nil {
				return err
			}
			k.records[n] = &r
		}
		return rows.Err()
	})
	return k, tx.SendBatch(ctx, &batch).Close()
}

// For the form of the condition see package pg, plans.go.
const recordsSQL = `SELECT i.tenant_id, i.key, ` + recordColumns + ` FROM idempotency_keys i
	JOIN unnest($1::uuid[], $2::text[]) AS k (tenant_id, key) ON i.tenant_id = ANY(ARRAY[k.tenant_id]) AND i.key = k.key`

// Take returns the stored answer for request i, or nil, after which the request may have its
// effect. Of several requests with one key the first gets it. The others get [ErrRunning] until its
// answer is stored, and the answer after that.
func (k *Keys) Take(i int) (*Answer, error) {
	r := k.requests[i]
	if !r.Given() {
		return nil, nil
	}
	if !k.locked[i] {
		return nil, ErrRunning
	}
	if found := k.records[r.keyName()]; found != nil {
		if a, err := found.answerTo(r, k.now); err != nil || a != nil {
			return a, err
		}
	}
	if first, taken := k.holder[r.keyName()]; taken && first != i {
		return nil, ErrRunning
	}
	k.holder[r.keyName()] = i
	return nil, nil
}

// Keep stores the answer to request i, which has taken its key; Save writes it.
func (k *Keys) Keep(i int, a Answer) {
	r := k.requests[i]
	if !r.Given() {
		return
	}
	k.records[r.keyName()] = &record{hash: r.hash[:], status: &a.Status, body: a.Body}
	k.kept = append(k.kept, r.with(a, k.now))
}

// Save writes the answers that were stored since Begin, in the transaction of their effects.
func (k *Keys) Save(ctx context.Context, tx pg.Tx) error { return saveAll(ctx, tx, k.kept) }

// answered is the row of a key with its answer.
type answered struct {
	TenantID  uuid.UUID `pg:"tenant_id"`
	Key       string    `pg:"key"`
	Hash      []byte    `pg:"request_hash"`
	Status    int32     `pg:"status_code"`
	Body      []byte    `pg:"response"`
	CreatedAt time.Time `pg:"created_at"`
}

func (r Request) with(a Answer, now time.Time) answered {
	return answered{r.tenant, r.key, r.hash[:], int32(a.Status), a.Body, now}
}

// saveSQL dates a key by its answer: the reservation of a caller that died may be days older.
var saveSQL = pg.Insert[answered]("idempotency_keys", 1) + `
	ON CONFLICT (tenant_id, key) DO UPDATE SET status_code = excluded.status_code, response = excluded.response, leased_until = NULL, created_at = excluded.created_at`

func saveAll(ctx context.Context, tx pg.Tx, rows []answered) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, saveSQL, pg.Columns(rows)...)
	return err
}
