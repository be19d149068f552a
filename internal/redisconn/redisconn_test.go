package redisconn

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	o, err := parse("redis://ada:open-sesame@one.example:6380/3")
	require.NoError(t, err)
	require.Equal(t, []string{"one.example:6380"}, o.Addrs)
	require.Equal(t, []any{"ada", "open-sesame", 3}, []any{o.Username, o.Password, o.DB})
	require.Nil(t, o.TLSConfig)

	o, err = parse("rediss://one.example")
	require.NoError(t, err)
	require.Equal(t, []string{"one.example:6379"}, o.Addrs)
	require.NotNil(t, o.TLSConfig)

	o, err = parse("redis://:pw@one.example:7000,two.example:7001,three.example")
	require.NoError(t, err)
	require.Equal(t, []string{"one.example:7000", "two.example:7001", "three.example:6379"}, o.Addrs)
	require.True(t, o.IsClusterMode)

	o, err = parse("redis://:pw@one.example:26379,two.example:26379/1?master_name=ajo&sentinel_username=eve&sentinel_password=let-me-in")
	require.NoError(t, err)
	require.Equal(t, []any{"pw", "eve", "let-me-in"}, []any{o.Password, o.SentinelUsername, o.SentinelPassword})
	require.Equal(t, "ajo", o.MasterName)
	require.False(t, o.IsClusterMode)
	require.Equal(t, 1, o.DB)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]any{
		"redis://127.0.0.1:1":                              &redis.Client{},
		"redis://127.0.0.1:1,127.0.0.1:2":                  &redis.ClusterClient{},
		"redis://127.0.0.1:1,127.0.0.1:2?master_name=mine": &redis.Client{},
	} {
		c, err := Open(address, Options{})
		require.NoError(t, err)
		require.IsType(t, want, c, address)
		require.NoError(t, c.Close())
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "127.0.0.1:6379", "http://127.0.0.1", "redis://a:open-sesame@h:p:q/x", "redis://h/notanumber", "redis://:open-sesame@one:1,two:2/1", "redis://:open-sesame@[::1"} {
		_, err := Open(bad, Options{})
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "open-sesame")
	}
}

// A subscription outlives a dial that found a closed client, as dials through Sentinels do at times
// while the master changes: its channel stays open, and messages come again.
func TestSubscriptionOutlivesAClosedDial(t *testing.T) {
	t.Parallel()
	var closed atomic.Bool
	var conns sync.Map
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if closed.Load() {
			return nil, redis.ErrClosed
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			conns.Store(c, nil)
		}
		return c, err
	}
	e := testenv.New(t)
	e.Redis()
	o, err := redis.ParseURL(e.RedisURL)
	require.NoError(t, err)
	o.Dialer = dial
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	c.AddHook(redial{})
	s := c.Subscribe(t.Context(), "news-"+t.Name())
	t.Cleanup(func() { _ = s.Close() })
	_, err = s.Receive(t.Context())
	require.NoError(t, err)
	news := s.Channel()

	closed.Store(true)
	conns.Range(func(k, _ any) bool { return k.(net.Conn).Close() == nil })
	select {
	case m, open := <-news:
		require.True(t, open, "the channel is closed for good: %v", m)
	case <-time.After(300 * time.Millisecond): // some dials in vain
	}
	closed.Store(false)
	testenv.Eventually(t, 10*time.Second, "a message", func() bool {
		c.Publish(t.Context(), "news-"+t.Name(), "hello")
		select {
		case m, open := <-news:
			require.True(t, open, "the channel is closed for good")
			return m.Payload == "hello"
		case <-time.After(50 * time.Millisecond):
			return false
		}
	})
}
