// Package idempotency makes a request safe to repeat: the first answer under a tenant's
// Idempotency-Key is kept with its effect, and given again to whoever repeats the request.
//
// What always holds: the answer is written in the transaction of the effect, so there is never one
// without the other; a request that changed nothing keeps no answer, and may be tried again under
// its key; of several at once, one does the work. Redis holds a sealed copy of answers for speed
// only. (Decisions, "Settlement".)
package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
)

const (
	maxKey = 255 // characters
	// lease is how long a request that calls the bank may hold its key before another takes over.
	lease = time.Minute
	// Keep is how long an answer is given again at least; the sweeper removes older ones.
	Keep = 7 * 24 * time.Hour
)

// Refusals.
var (
	ErrKey     = errs.New(errs.Invalid, "Idempotency-Key must have 1 to 255 printable characters")
	ErrReused  = errs.New(errs.Unprocessable, "Idempotency-Key was used with another request")
	ErrRunning = errs.New(errs.Conflict, "a request with this Idempotency-Key is still running")
)

// Request names a request by its tenant and key. The zero value is a request without a key: nothing
// is kept for it.
type Request struct {
	tenant uuid.UUID
	key    string
	hash   [sha256.Size]byte
}

// NewRequest returns the request of a tenant with the given key, method, path and body; bodies of
// the same JSON are the same. An empty key keeps nothing; a bad one is [ErrKey].
func NewRequest(tenant uuid.UUID, key, method, path string, body []byte) (Request, error) {
	if key == "" {
		return Request{}, nil
	}
	if utf8.RuneCountInString(key) > maxKey || !utf8.ValidString(key) {
		return Request{}, ErrKey
	}
	for _, r := range key {
		if !unicode.IsPrint(r) {
			return Request{}, ErrKey
		}
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), canonical(body)} {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part)))
		h.Write(part)
	}
	return Request{tenant: tenant, key: key, hash: [sha256.Size]byte(h.Sum(nil))}, nil
}

// canonical writes JSON with its keys in order and without spaces, so that a client that writes the
// same request in another way repeats it. A number stays as it was written: 1.0 is another text
// than 1. What is no JSON stays as it is, and is refused elsewhere.
func canonical(body []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || dec.More() {
		return body
	}
	out, err := json.Marshal(v)
	if err != nil {
		return body
	}
	return out
}

// Given tells whether the request has a key.
func (r Request) Given() bool { return r.key != "" }

// Name is a number that only this tenant's key has, whatever was asked for under it; ok is false
// without a key. What it names at the bank is recognised there when the request comes again after
// all that was kept here has been lost.
func (r Request) Name() (name [8]byte, ok bool) {
	sum := sha256.Sum256([]byte("name\x00" + r.tenant.String() + r.key))
	return [8]byte(sum[:]), r.Given()
}

// Answer is a kept answer.
type Answer struct {
	Status int
	Body   []byte
}

// NewAnswer encodes v as the body of an answer.
func NewAnswer(status int, v any) (Answer, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // this is no web page
	err := enc.Encode(v)
	return Answer{Status: status, Body: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}, err
}

// Find returns the kept answer if there is one, for the use case to look before it does anything
// that a repeat must not depend on: asking the bank, or comparing with the time. Nil promises
// nothing: [Begin] decides. [ErrRunning], [ErrReused].
func Find(ctx context.Context, q pg.Querier, now time.Time, r Request) (*Answer, error) {
	if !r.Given() {
		return nil, nil
	}
	var k record
	err := q.QueryRow(ctx, `SELECT `+recordColumns+` FROM idempotency_keys WHERE tenant_id = $1 AND key = $2`, r.tenant, r.key).Scan(k.fields()...)
	if pg.IsNoRows(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return k.answerTo(r, now)
}

// record is what stands under a key.
type record struct {
	hash   []byte
	status *int
	body   []byte
	leased *time.Time
}

// recordColumns are a record's, in the order of fields.
const recordColumns = `request_hash, status_code, response, leased_until`

func (k *record) fields() []any { return []any{&k.hash, &k.status, &k.body, &k.leased} }

// answerTo is the answer that the record keeps for the request; nil when whoever reserved the key
// has not come to an end.
func (k *record) answerTo(r Request, now time.Time) (*Answer, error) {
	switch {
	case !bytes.Equal(k.hash, r.hash[:]):
		return nil, ErrReused
	case k.status != nil:
		return &Answer{Status: *k.status, Body: k.body}, nil
	case k.leased != nil && k.leased.After(now):
		return nil, ErrRunning
	}
	return nil, nil
}

// Begin takes the key inside the transaction that will have the effect, and returns the kept answer
// if there is one: the caller then does nothing. [ErrRunning] when another transaction has the key
// just now, [ErrReused] for another request.
func Begin(ctx context.Context, tx pg.Tx, now time.Time, r Request) (*Answer, error) {
	keys, err := BeginAll(ctx, tx, now, []Request{r})
	if err != nil {
		return nil, err
	}
	return keys.Take(0)
}

// Reserve marks the key as under way, for a request whose effect is not one transaction because it
// calls the bank. It runs in a transaction of its own, after [Begin]; [Save] or [Release] ends it,
// or its lease, when the caller has died.
func Reserve(ctx context.Context, tx pg.Tx, now time.Time, r Request) error {
	if !r.Given() {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys (tenant_id, key, request_hash, leased_until, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant_id, key) DO UPDATE SET leased_until = excluded.leased_until`, r.tenant, r.key, r.hash[:], now.Add(lease), now)
	return err
}

// Save keeps the answer, in the transaction of the effect.
func Save(ctx context.Context, tx pg.Tx, now time.Time, r Request, a Answer) error {
	if !r.Given() {
		return nil
	}
	return saveAll(ctx, tx, now, []Request{r}, []Answer{a})
}

// Release forgets the key that was reserved at the time at, when its request changed nothing, so
// that it may be tried again at once. A reservation whose lease ran out, and that another caller
// has by now, stays.
func Release(ctx context.Context, q pg.Querier, at time.Time, r Request) error {
	if !r.Given() {
		return nil
	}
	_, err := q.Exec(ctx, `DELETE FROM idempotency_keys WHERE tenant_id = $1 AND key = $2 AND status_code IS NULL AND leased_until = $3`,
		r.tenant, r.key, at.Add(lease))
	return err
}

// Purge removes the answers that are older than [Keep], at most limit of them, and none that
// another process is removing.
func Purge(ctx context.Context, q pg.Querier, now time.Time, limit int) (int64, error) {
	tag, err := q.Exec(ctx, `
		DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED))`, now.Add(-Keep), limit)
	return tag.RowsAffected(), err
}
