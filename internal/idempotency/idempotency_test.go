package idempotency_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/idempotency"
	"ajo/internal/pg"
	"ajo/internal/retention"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

type bundle struct {
	*testenv.Env
	ctx    context.Context
	tenant uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	e := testenv.New(t)
	return &bundle{Env: e, ctx: context.Background(), tenant: e.Tenant()}
}

func (b *bundle) request(key, body string) idempotency.Request {
	b.T.Helper()
	r, err := idempotency.NewRequest(b.tenant, key, "POST", "/v1/accounts", []byte(body))
	require.NoError(b.T, err)
	return r
}

func (b *bundle) tx(do func(tx pg.Tx) error) error { return pg.InTx(b.ctx, b.Pool, do) }

// begin takes the key in a transaction of its own.
func (b *bundle) begin(r idempotency.Request) (kept *idempotency.Answer, err error) {
	err = b.tx(func(tx pg.Tx) (err error) {
		kept, err = idempotency.Begin(b.ctx, tx, b.Clock.Now(), r)
		return err
	})
	return kept, err
}

func (b *bundle) save(r idempotency.Request, a idempotency.Answer) {
	b.T.Helper()
	require.NoError(b.T, b.tx(func(tx pg.Tx) error { return idempotency.Save(b.ctx, tx, b.Clock.Now(), r, a) }))
}

func (b *bundle) reserve(r idempotency.Request) time.Time {
	b.T.Helper()
	now := b.Clock.Now()
	require.NoError(b.T, b.tx(func(tx pg.Tx) error { return idempotency.Reserve(b.ctx, tx, now, r) }))
	return now
}

var answer = idempotency.Answer{Status: 201, Body: []byte(`{"a":"<&>"}`)}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	tenant := uuid.New()
	r, err := idempotency.NewRequest(tenant, "", "POST", "/", nil)
	require.NoError(t, err)
	require.False(t, r.Given())
	for _, good := range []string{"a", strings.Repeat("k", 255), strings.Repeat("é", 255), "with space", "ключ"} {
		r, err := idempotency.NewRequest(tenant, good, "POST", "/", nil)
		require.NoError(t, err, good)
		require.True(t, r.Given())
	}
	for _, bad := range []string{strings.Repeat("k", 256), "a\nb", "a\x00b", "\x7f", "a\xffb", "\u202e"} {
		_, err := idempotency.NewRequest(tenant, bad, "POST", "/", nil)
		require.ErrorIs(t, err, idempotency.ErrKey, "%q", bad)
	}
}

func TestAnswersAreEncodedOnce(t *testing.T) {
	t.Parallel()
	a, err := idempotency.NewAnswer(201, map[string]string{"a": "<&>"})
	require.NoError(t, err)
	require.Equal(t, answer, a)
	_, err = idempotency.NewAnswer(201, make(chan int))
	require.Error(t, err)
}

func TestWithoutAKeyNothingIsKept(t *testing.T) {
	b := setup(t)
	var none idempotency.Request
	kept, err := b.begin(none)
	require.NoError(t, err)
	require.Nil(t, kept)
	at := b.reserve(none)
	b.save(none, answer)
	require.NoError(t, idempotency.Release(b.ctx, b.Pool, at, none))
	require.Zero(t, testenv.Value[int](b.Env, `SELECT count(*) FROM idempotency_keys`))
}

func TestTheFirstAnswerIsKept(t *testing.T) {
	b := setup(t)
	r := b.request("k", "body")
	kept, err := b.begin(r)
	require.NoError(t, err)
	require.Nil(t, kept)
	b.save(r, answer)
	for range 2 {
		kept, err = b.begin(r)
		require.NoError(t, err)
		require.Equal(t, answer, *kept)
		kept, err = idempotency.Find(b.ctx, b.Pool, b.Clock.Now(), r)
		require.NoError(t, err)
		require.Equal(t, answer, *kept)
	}
	for name, other := range map[string][3]string{"method": {"PUT", "/v1/accounts", "body"}, "path": {"POST", "/v1/account", "sbody"}, "body": {"POST", "/v1/accounts", "bodY"}} {
		another, err := idempotency.NewRequest(b.tenant, "k", other[0], other[1], []byte(other[2]))
		require.NoError(t, err)
		_, err = b.begin(another)
		require.ErrorIs(t, err, idempotency.ErrReused, name)
	}
	stranger, err := idempotency.NewRequest(b.Tenant(), "k", "POST", "/v1/accounts", []byte("body"))
	require.NoError(t, err)
	kept, err = b.begin(stranger)
	require.NoError(t, err)
	require.Nil(t, kept, "another tenant's key")
	kept, err = idempotency.Find(b.ctx, b.Pool, b.Clock.Now(), stranger)
	require.NoError(t, err)
	require.Nil(t, kept, "another tenant's key")
}

// The same JSON, written in another way, is the same request; another value is not, nor another
// spelling of a number.
func TestTheSameBodyWrittenAnotherWay(t *testing.T) {
	b := setup(t)
	b.save(b.request("k", `{"amount":"100.00","bankCode":"058","n":[1.50,{"b":null,"a":"é<"}]}`), answer)
	for _, same := range []string{
		`{"bankCode":"058","n":[1.50,{"a":"é<","b":null}],"amount":"100.00"}`,
		" {\n\t\"amount\" : \"100.00\",\r\n \"bankCode\":\"058\", \"n\": [ 1.50, {\"b\":null, \"a\":\"\\u00e9\\u003c\"} ] }\n",
	} {
		kept, err := idempotency.Find(b.ctx, b.Pool, b.Clock.Now(), b.request("k", same))
		require.NoError(t, err, same)
		require.Equal(t, answer, *kept, same)
	}
	for _, other := range []string{
		`{"amount":"100.0","bankCode":"058","n":[1.50,{"b":null,"a":"é<"}]}`, `{"amount":"100.00","bankCode":"058","n":[1.5,{"b":null,"a":"é<"}]}`,
		`{"amount":"100.00","bankCode":"058","n":[{"b":null,"a":"é<"},1.50]}`, `{"amount":"100.00","bankCode":"058","n":[1.50,{"a":"é<"}]}`,
		`{"amount":"100.00","BankCode":"058","n":[1.50,{"b":null,"a":"é<"}]}`, `{"amount":100.00,"bankCode":"058","n":[1.50,{"b":null,"a":"é<"}]}`,
		`{"amount":"100.00","bankCode":"058","n":[1.50,{"b":null,"a":"é<"}]}x`, `{"amount":"100.00","bankCode":"058","n":[1.50,{"b":null,"a":"é<"}]}{}`, ``,
	} {
		_, err := idempotency.Find(b.ctx, b.Pool, b.Clock.Now(), b.request("k", other))
		require.ErrorIs(t, err, idempotency.ErrReused, other)
	}
	b.save(b.request("big", `{"n":9007199254740993.01}`), answer)
	_, err := idempotency.Find(b.ctx, b.Pool, b.Clock.Now(), b.request("big", `{"n":9007199254740993.02}`))
	require.ErrorIs(t, err, idempotency.ErrReused, "a number is its text")
}

// While one transaction has the key, others are told so at once, and are not made to wait.
func TestOneAtATime(t *testing.T) {
	b := setup(t)
	r := b.request("k", "body")
	require.NoError(t, b.tx(func(tx pg.Tx) error {
		_, err := idempotency.Begin(b.ctx, tx, b.Clock.Now(), r)
		require.NoError(t, err)
		_, err = b.begin(r)
		require.ErrorIs(t, err, idempotency.ErrRunning)
		_, err = b.begin(b.request("another key", "body"))
		require.NoError(t, err)
		return nil
	}))
	_, err := b.begin(r)
	require.NoError(t, err, "what was rolled back, or changed nothing, is forgotten")
}

// A request that calls the bank reserves its key: it ends by an answer, by its release, or by its
// lease.
func TestReservation(t *testing.T) {
	b := setup(t)
	r := b.request("k", "body")
	at := b.reserve(r)
	stranger, err := idempotency.NewRequest(b.Tenant(), "k", "POST", "/v1/accounts", []byte("body"))
	require.NoError(t, err)
	b.reserve(stranger)
	_, err = b.begin(r)
	require.ErrorIs(t, err, idempotency.ErrRunning)
	_, err = b.begin(b.request("k", "another body"))
	require.ErrorIs(t, err, idempotency.ErrReused)
	require.NoError(t, idempotency.Release(b.ctx, b.Pool, at, r))
	kept, err := b.begin(r)
	require.NoError(t, err)
	require.Nil(t, kept, "released")
	_, err = b.begin(stranger)
	require.ErrorIs(t, err, idempotency.ErrRunning, "another tenant's is not")

	at = b.reserve(r)
	b.Clock.Advance(time.Minute)
	kept, err = b.begin(r)
	require.NoError(t, err)
	require.Nil(t, kept, "the caller has died")
	later := b.reserve(r)
	require.NoError(t, idempotency.Release(b.ctx, b.Pool, at, r))
	_, err = b.begin(r)
	require.ErrorIs(t, err, idempotency.ErrRunning, "a late release leaves the key to the caller that has it now")
	b.save(r, answer)
	require.NoError(t, idempotency.Release(b.ctx, b.Pool, later, r))
	kept, err = b.begin(r)
	require.NoError(t, err)
	require.Equal(t, answer, *kept, "an answer is not released")
}

func TestPurge(t *testing.T) {
	b := setup(t)
	late := b.request("late", "")
	b.reserve(late) // by a caller that dies
	for _, k := range []string{"1", "2", "3"} {
		b.save(b.request(k, ""), answer)
		b.Clock.Advance(time.Hour)
	}
	left := func(step int) int {
		require.NoError(t, retention.Purge(b.ctx, b.Pool, retention.Keep{}, b.Clock.Now(), step))
		return testenv.Value[int](b.Env, `SELECT count(*) FROM idempotency_keys`)
	}
	b.Clock.Advance(idempotency.Keep - 3*time.Hour)
	b.reserve(late)
	require.Equal(t, 4, left(10), "kept for seven days")
	b.Clock.Advance(30 * time.Minute)
	require.Equal(t, 3, left(10), "a request is under way again")
	b.save(late, answer)
	b.Clock.Advance(time.Hour)
	require.Equal(t, 2, left(1))
	for _, r := range []idempotency.Request{b.request("3", ""), late} {
		kept, err := b.begin(r)
		require.NoError(t, err)
		require.NotNil(t, kept)
	}
}

// Redis serves a copy; when it is emptied or away, Postgres has the answer.
func TestCache(t *testing.T) {
	b := setup(t)
	redis := b.Redis()
	box, err := secret.ParseKeys(secret.NewKey("one").Reveal())
	require.NoError(t, err)
	cache := idempotency.NewCache(redis, box, b.Pool, time.Minute)
	t.Cleanup(cache.Close)
	r := b.request("k", "body")
	require.Nil(t, cache.Get(b.ctx, r))
	b.save(r, answer)
	cache.Put(b.ctx, r, answer)
	require.Equal(t, answer, *cache.Get(b.ctx, r))
	keys, err := redis.Keys(b.ctx, "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	kept, err := redis.Get(b.ctx, keys[0]).Result()
	require.NoError(t, err)
	require.NotContains(t, keys[0]+kept, string(answer.Body), "an answer has names and account numbers")
	lives, err := redis.PTTL(b.ctx, keys[0]).Result()
	require.NoError(t, err)
	require.LessOrEqual(t, lives, 10*time.Minute, "the queues need the room")
	require.Positive(t, lives)
	require.Nil(t, cache.Get(b.ctx, b.request("k", "another body")), "that is for Postgres to refuse")
	require.NoError(t, redis.Set(b.ctx, keys[0], "damaged", 0).Err())
	require.Nil(t, cache.Get(b.ctx, r), "what does not open is not there")
	place := secret.Place{Table: "redis", Column: "answer", Row: keys[0]}
	opened, err := box.Open(place, []byte(kept))
	require.NoError(t, err)
	for n := range sha256.Size + 2 {
		require.NoError(t, redis.Set(b.ctx, keys[0], box.Seal(place, opened[:n]), 0).Err())
		require.Nil(t, cache.Get(b.ctx, r), "%d bytes are no answer", n)
	}
	require.NoError(t, redis.Set(b.ctx, keys[0], box.Seal(place, opened[:sha256.Size+2]), 0).Err())
	require.Equal(t, idempotency.Answer{Status: answer.Status, Body: []byte{}}, *cache.Get(b.ctx, r), "an answer without a body")
	another, err := secret.ParseKeys(secret.NewKey("two").Reveal())
	require.NoError(t, err)
	rotated := idempotency.NewCache(redis, another, b.Pool, time.Minute)
	t.Cleanup(rotated.Close)
	require.NoError(t, redis.Set(b.ctx, keys[0], kept, 0).Err())
	require.Nil(t, rotated.Get(b.ctx, r), "sealed by a key that is gone")
	require.Equal(t, answer, *cache.Get(b.ctx, r))
	stranger, err := idempotency.NewRequest(b.Tenant(), "k", "POST", "/v1/accounts", []byte("body"))
	require.NoError(t, err)
	require.Nil(t, cache.Get(b.ctx, stranger))

	b.Exec(`DELETE FROM idempotency_keys`)
	require.Equal(t, answer, *cache.Get(b.ctx, r), "served from Redis")
	b.save(r, answer)
	require.NoError(t, redis.FlushDB(b.ctx).Err())
	require.Nil(t, cache.Get(b.ctx, r))
	found, err := b.begin(r)
	require.NoError(t, err)
	require.Equal(t, answer, *found, "served from Postgres")

	var none idempotency.Request
	cache.Put(b.ctx, none, answer)
	require.Nil(t, cache.Get(b.ctx, none))
	require.NoError(t, redis.Close())
	cache.Put(b.ctx, r, answer)
	require.Nil(t, cache.Get(b.ctx, r))
}
