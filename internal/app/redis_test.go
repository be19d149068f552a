package app

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/config"
	"ajo/internal/redisconn"
	"ajo/internal/testenv"
)

// A Redis that evicts tasks is refused in production, and named in development; one without an
// append-only file is named; one that is away is no error.
func TestCheckRedis(t *testing.T) {
	t.Parallel()
	node := func(settings ...string) string { return testenv.StartRedis(t, settings...).URL }
	evicts, forgets, good := node("maxmemory-policy allkeys-lru"), node("appendonly no"), node()
	check := func(addr, env string) (string, error) {
		client, err := redisconn.Open(addr, redisconn.Options{})
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		var log bytes.Buffer
		c := &core{parts: parts{cfg: config.Config{Env: env}, log: slog.New(slog.NewTextHandler(&log, nil)), redis: client}}
		err = c.checkRedis(context.Background())
		return log.String(), err
	}
	for _, env := range []string{config.Production, config.Development} {
		log, err := check(good, env)
		require.NoError(t, err)
		require.Empty(t, log)
		log, err = check(forgets, env)
		require.NoError(t, err)
		require.Contains(t, log, "no append-only file")
		log, err = check("redis://127.0.0.1:1", env)
		require.NoError(t, err)
		require.Contains(t, log, "not checked")
	}
	_, err := check(evicts, config.Production)
	require.EqualError(t, err, "AJO_REDIS_URL: maxmemory-policy is allkeys-lru, and must be noeviction: an evicted key is a lost task")
	log, err := check(evicts, config.Development)
	require.NoError(t, err)
	require.Contains(t, log, "allkeys-lru")
}

// A Redis that answers and takes no writes is of no use: tasks are neither enqueued nor taken. A
// full one is another matter: what is in it can leave.
func TestRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	ctx, node := context.Background(), testenv.StartRedis(t)
	client, err := redisconn.Open(node.URL, redisconn.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	admin := node.Client()
	defer func() { require.NoError(t, admin.Close()) }()
	c := &core{parts: parts{redis: client}}
	set := func(name, value string) { require.NoError(t, admin.ConfigSet(ctx, name, value).Err()) }
	require.NoError(t, c.redisWorks(ctx))
	set("min-replicas-to-write", "1")
	require.ErrorContains(t, c.redisWorks(ctx), "NOREPLICAS")
	set("min-replicas-to-write", "0")
	set("maxmemory", "1")
	require.ErrorContains(t, admin.Set(ctx, "anything", "x", 0).Err(), "OOM")
	require.NoError(t, c.redisWorks(ctx))
	set("maxmemory", "0")
	require.NoError(t, admin.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err())
	require.ErrorContains(t, c.redisWorks(ctx), "READONLY")
}
