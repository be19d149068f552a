package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

func credential(n int) [32]byte { return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// A tenant has one allowance for all its keys and another for all its sessions.
func TestLimitIsTheTenants(t *testing.T) {
	t.Parallel()
	client := testenv.New(t).Redis()
	l := newLimiter(t, client, "4-H", "3-H")
	ctx, tenant := context.Background(), [16]byte{1}
	for i := range 4 {
		require.True(t, l.Key(ctx, tenant, credential(i)).OK)
		require.True(t, l.Session(ctx, tenant, true, credential(i)).OK)
	}
	require.False(t, l.Key(ctx, tenant, credential(5)).OK, "a new key is no new allowance")
	require.False(t, l.Session(ctx, tenant, true, credential(5)).OK, "nor is a new session")
	require.True(t, l.Key(ctx, [16]byte{2}, credential(6)).OK)
	for i := range 4 {
		require.Equal(t, i < 2, l.Session(ctx, [16]byte{3}, false, credential(i)).OK, "members but the owner have half")
	}
	for i := range 3 {
		require.Equal(t, i < 2, l.Session(ctx, [16]byte{3}, true, credential(9)).OK, "the owner has the rest")
	}
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 5, "one for each tenant's kind")
	require.True(t, newLimiter(t, client, "1-H", "3-H").Session(ctx, [16]byte{4}, false, credential(9)).OK, "half of an odd limit is rounded up")
}

// Made-up credentials have one count in Redis, their address's, and once that is passed none of
// them is looked up; what has opened something is. Who is over its own limit is not looked up
// either.
func TestStrangersAreNotLookedUp(t *testing.T) {
	t.Parallel()
	client := testenv.New(t).Redis()
	l := newLimiter(t, client, "3-H", "3-H")
	ctx, addr, tenant, good := context.Background(), netip.MustParseAddr("192.0.2.7"), [16]byte{1}, credential(-1)
	require.True(t, l.Key(ctx, tenant, good).OK)
	for i := range 3 {
		require.True(t, l.Admit(addr, credential(i)).OK)
		require.True(t, l.Stranger(ctx, addr, credential(i)).OK)
	}
	require.True(t, l.Admit(addr, credential(3)).OK)
	require.False(t, l.Stranger(ctx, addr, credential(3)).OK)
	refused := l.Admit(addr, credential(4))
	require.False(t, refused.OK)
	require.Equal(t, int64(3), refused.Limit)
	require.True(t, refused.Reset > 3500 && refused.Reset <= 3600, refused.Reset)
	require.True(t, l.Admit(netip.MustParseAddr("192.0.2.8"), credential(4)).OK, "another address")
	require.True(t, l.Admit(addr, good).OK, "it has opened something")
	require.True(t, l.Key(ctx, tenant, good).OK)
	require.True(t, l.Key(ctx, tenant, good).OK)
	require.False(t, l.Key(ctx, tenant, good).OK)
	require.False(t, l.Admit(addr, good).OK, "its tenant is over the limit")
	require.False(t, l.Admit(netip.MustParseAddr("192.0.2.8"), good).OK, "wherever it comes from")
	l.Stranger(ctx, addr, good)
	l.recent.over = nil
	l.Stranger(ctx, addr, credential(5))
	require.False(t, l.Admit(addr, good).OK, "it opens nothing any more")
	keys, err := client.Keys(ctx, "*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 2, "the tenant and the address")
}

// What is remembered is bounded, and ends.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var m recent
	now := time.Now()
	for i := range 3 * maxRemembered {
		c := credential(i)
		m.meet([16]byte(c[:16]), true)
		require.True(t, m.hasMet([16]byte(c[:16])))
		m.passed(ownName(c), Result{Limit: 1, Reset: 10}, now)
		_, over := m.isOver(ownName(c), now)
		require.True(t, over)
	}
	require.LessOrEqual(t, len(m.met)+len(m.older), 2*maxRemembered)
	require.LessOrEqual(t, len(m.over), maxRemembered)
	m.passed("x", Result{Limit: 7, Reset: 10}, now)
	for at, left := range map[time.Duration]int64{0: 10, 8999 * time.Millisecond: 2, 9 * time.Second: 1, 9500 * time.Millisecond: 1, 10*time.Second - 1: 1} {
		r, over := m.isOver("x", now.Add(at))
		require.True(t, over)
		require.Equal(t, Result{Limit: 7, Reset: left}, r, at)
	}
	_, over := m.isOver("x", now.Add(10*time.Second))
	require.False(t, over)
	require.NotContains(t, m.over, "x")
}

// Where there is no room, refusals that have ended make it: those that still hold are remembered.
func TestWhatHasEndedMakesRoom(t *testing.T) {
	t.Parallel()
	var m recent
	now := time.Now()
	m.passed("long", Result{Limit: 1, Reset: 20}, now)
	for i := range maxRemembered - 1 {
		m.passed(ownName(credential(i)), Result{Limit: 1, Reset: 10}, now)
	}
	require.Len(t, m.over, maxRemembered)
	m.passed("more", Result{Limit: 1, Reset: 10}, now.Add(10*time.Second))
	require.Len(t, m.over, 2)
	require.Contains(t, m.over, "long")
}
