package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/redis/go-redis/v9"

	"ajo/internal/batch"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

const (
	// CacheTimeout is how long a Redis that is away may hold up a request. What is not found in
	// time is read from Postgres.
	CacheTimeout = 50 * time.Millisecond

	// cacheKept is long enough for a client that repeats what it got no answer to. Redis has the
	// queues too, which must have room: a day of one busy tenant's answers is half a gigabyte.
	cacheKept = 10 * time.Minute
	// Concurrent queries are sent together, at most this many.
	cacheWriters = 1
	cacheBatch   = 100
)

// Cache is a copy of answers in Redis, encrypted, because they contain names and account numbers.
// It only saves queries to Postgres: without it, without Redis, or without its key, nothing else
// changes. Close it when its callers have stopped.
type Cache struct {
	redis   redis.UniversalClient
	box     *secret.Box
	pool    *pg.Pool
	timeout time.Duration
	gets    *batch.Coalescer[string, []byte]
	puts    *batch.Coalescer[copied, struct{}]
}

// copied is an answer to be copied to Redis.
type copied struct {
	key   string
	value []byte
}

// NewCache returns a cache in the given Redis, encrypted by box; each call of it takes at most the
// timeout, which is [CacheTimeout] but for tests. It has the answers of the pool's database as it
// is: one that is restored, or whose standby has taken over, may lack what an earlier answer says
// ([pg.History]).
func NewCache(r redis.UniversalClient, box *secret.Box, pool *pg.Pool, timeout time.Duration) *Cache {
	c := &Cache{redis: r, box: box, pool: pool, timeout: timeout}
	c.gets = batch.New(cacheWriters, cacheBatch, c.getBatch)
	c.puts = batch.New(cacheWriters, cacheBatch, c.putBatch)
	return c
}

// Close stops its background work.
func (c *Cache) Close() {
	c.gets.Close()
	c.puts.Close()
}

// Get returns the stored answer for exactly this request, or nil.
func (c *Cache) Get(ctx context.Context, r Request) *Answer {
	if !r.Given() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	key := c.keyOf(r)
	sealed, err := c.gets.Do(ctx, key)
	if err != nil {
		return nil
	}
	b, err := c.box.Open(placeOf(key), sealed)
	if err != nil || len(b) < sha256.Size+2 || !bytes.Equal(b[:sha256.Size], r.hash[:]) {
		return nil
	}
	b = b[sha256.Size:]
	return &Answer{Status: int(binary.BigEndian.Uint16(b)), Body: b[2:]}
}

// Put copies an answer that has been committed.
func (c *Cache) Put(ctx context.Context, r Request, a Answer) {
	if !r.Given() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	b := binary.BigEndian.AppendUint16(bytes.Clone(r.hash[:]), uint16(a.Status))
	key := c.keyOf(r)
	_, _ = c.puts.Do(ctx, copied{key: key, value: c.box.Seal(placeOf(key), append(b, a.Body...))})
}

func (c *Cache) getBatch(ctx context.Context, keys []string) []batch.Outcome[[]byte] {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	got := make([]*redis.StringCmd, len(keys))
	_, _ = c.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // its error is the commands' own
		for i, k := range keys {
			got[i] = p.Get(ctx, k)
		}
		return nil
	})
	out := make([]batch.Outcome[[]byte], len(keys))
	for i, g := range got {
		out[i].Value, out[i].Err = g.Bytes()
	}
	return out
}

func (c *Cache) putBatch(ctx context.Context, copies []copied) []batch.Outcome[struct{}] {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	// a missing copy does no harm
	_, _ = c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range copies {
			p.Set(ctx, k.key, k.value, cacheKept)
		}
		return nil
	})
	return make([]batch.Outcome[struct{}], len(copies))
}

// placeOf is what a copy's encryption is bound to.
func placeOf(key string) secret.Place {
	return secret.Place{Table: "redis", Column: "answer", Row: key}
}

// keyOf hashes the tenant's text, which may be anything.
func (c *Cache) keyOf(r Request) string {
	sum := sha256.Sum256([]byte(pg.History(c.pool) + "\x00" + r.tenant.String() + r.key))
	return "ajo:idempotency:" + hex.EncodeToString(sum[:])
}
