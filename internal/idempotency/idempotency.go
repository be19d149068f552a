// Package idempotency makes a request safe to repeat: the first answer under a tenant's
// Idempotency-Key is stored with its effect, and returned again when the request is repeated.
//
// Invariants: the answer is written in the transaction of the effect, so neither exists without the
// other. A request that changed nothing stores no answer, and may be tried again with its key. Of
// concurrent requests with one key, one does the work. Redis holds an encrypted copy of answers,
// only for speed. (Decisions, "Settlement".)
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

	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/pg"
)

const (
	maxKey = 255 // characters
	// lease is how long a request that opens an account at the bank may hold its key before another
	// one takes over. (A settlement asks the bank before it takes its key.)
	lease = time.Minute
	// Keep is how long an answer is stored at least; package retention has older ones removed.
	Keep = 7 * 24 * time.Hour
)

// Refusals.
var (
	ErrKey     = errs.New(errs.Invalid, "Idempotency-Key must have 1 to 255 printable characters")
	ErrReused  = errs.New(errs.Unprocessable, "Idempotency-Key was already used with a different request")
	ErrRunning = errs.New(errs.Conflict, "a request with this Idempotency-Key is still running")
)

// Request names a request by its tenant and key. The zero value is a request without a key, for
// which nothing is stored.
type Request struct {
	tenant uuid.UUID
	key    string
	hash   [sha256.Size]byte
}

// NewRequest returns the request of a tenant with the given key, method, path and body; bodies of
// the same JSON are equal. Without a key nothing is stored; a bad key is [ErrKey].
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

// canonical writes JSON with sorted keys and without spaces, so that a client may write a repeated
// request differently. Numbers stay as they were written: 1.0 is not equal to 1. A text that is not
// JSON stays as it is, and is refused elsewhere.
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

// Given reports whether the request has a key.
func (r Request) Given() bool { return r.key != "" }

// Name is a number that is unique to this tenant's key, whatever is requested with it; ok is false
// without a key. So the bank recognises what it names when the request is repeated, even if
// everything stored here was lost.
func (r Request) Name() (name [8]byte, ok bool) {
	sum := sha256.Sum256([]byte("name\x00" + r.tenant.String() + r.key))
	return [8]byte(sum[:]), r.Given()
}

// Answer is a stored answer.
type Answer struct {
	Status int
	Body   []byte
}

// Result is what a use case answers to a request: with Replayed, what it had answered before.
type Result struct {
	Answer   Answer
	Replayed bool
}

// Repeated is the result of a request whose answer is stored; the zero value if kept is nil.
func Repeated(kept *Answer) Result {
	if kept == nil {
		return Result{}
	}
	return Result{Answer: *kept, Replayed: true}
}

// NewAnswer encodes v as the body of an answer.
func NewAnswer(status int, v any) (Answer, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // this is not a web page
	err := enc.Encode(v)
	return Answer{Status: status, Body: bytes.TrimSuffix(b.Bytes(), []byte("\n"))}, err
}

// Find returns the stored answer if there is one. A use case calls it before anything that a repeat
// must not depend on: a call of the bank, or a comparison with the time. Nil guarantees nothing:
// [Begin] decides. [ErrRunning], [ErrReused].
func Find(ctx context.Context, q pg.Querier, now time.Time, r Request) (*Answer, error) {
	if !r.Given() {
		return nil, nil
	}
	var k record
	err := q.QueryRow(ctx, `SELECT `+recordColumns+` FROM idempotency_keys WHERE tenant_id = $1 AND key = $2`, r.tenant, r.key).Scan(k.fields()...)
	if err != nil {
		return nil, pg.OrNone(err, nil)
	}
	return k.answerTo(r, now)
}

// record is the row of a key.
type record struct {
	hash   []byte
	status *int
	body   []byte
	leased *time.Time
}

// recordColumns are a record's columns, in the order of its fields.
const recordColumns = `request_hash, status_code, response, leased_until`

func (k *record) fields() []any { return []any{&k.hash, &k.status, &k.body, &k.leased} }

// answerTo is the stored answer for the request; nil when the request that reserved the key has not
// ended.
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

// Begin takes the key inside the transaction that will have the effect. If there is a stored answer
// it returns that, and the caller does nothing. [ErrRunning] while another transaction has the key,
// [ErrReused] for another request.
func Begin(ctx context.Context, tx pg.Tx, now time.Time, r Request) (*Answer, error) {
	keys, err := BeginAll(ctx, tx, now, []Request{r})
	if err != nil {
		return nil, err
	}
	return keys.Take(0)
}

// Reserve marks the key as in progress, for a request whose effect is not one transaction because
// it opens an account at the bank. It runs in its own transaction, after [Begin]. [Save] or
// [Release] ends the reservation; if the caller has died, its lease ends it.
func Reserve(ctx context.Context, tx pg.Tx, now time.Time, r Request) error {
	if !r.Given() {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO idempotency_keys (tenant_id, key, request_hash, leased_until, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (tenant_id, key) DO UPDATE SET leased_until = excluded.leased_until, created_at = excluded.created_at`, r.tenant, r.key, r.hash[:], now.Add(lease), now)
	return err
}

// Once does what a request asks for in one transaction with the answer that is kept of it.
func Once(ctx context.Context, pool *pg.Pool, c clock.Clock, status int, key Request, do func(pg.Tx, time.Time) (any, error)) (r Result, err error) {
	err = pg.InTx(ctx, pool, func(tx pg.Tx) error {
		now := c.Now()
		kept, err := Begin(ctx, tx, now, key)
		if r = Repeated(kept); err != nil || r.Replayed {
			return err
		}
		done, err := do(tx, now)
		if err != nil {
			return err
		}
		if r.Answer, err = NewAnswer(status, done); err != nil {
			return err
		}
		err = Save(ctx, tx, now, key, r.Answer)
		failpoint.At("once/before-commit")
		return err
	})
	if err == nil {
		failpoint.At("once/after-commit")
	}
	return r, err
}

// Save stores the answer, in the transaction of the effect.
func Save(ctx context.Context, tx pg.Tx, now time.Time, r Request, a Answer) error {
	if !r.Given() {
		return nil
	}
	return saveAll(ctx, tx, []answered{r.with(a, now)})
}

// Release removes the reservation that was made at the time at, when its request changed nothing,
// so that it may be tried again at once. A reservation whose lease has ended, and that another
// caller has taken, stays.
func Release(ctx context.Context, q pg.Querier, at time.Time, r Request) error {
	if !r.Given() {
		return nil
	}
	_, err := q.Exec(ctx, `DELETE FROM idempotency_keys WHERE tenant_id = $1 AND key = $2 AND status_code IS NULL AND leased_until = $3`,
		r.tenant, r.key, at.Add(lease))
	return err
}
