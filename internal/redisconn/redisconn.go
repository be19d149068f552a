// Package redisconn opens Redis from the one setting AJO_REDIS_URL.
//
// One host is a single server (redis://, rediss://). Several hosts, separated by commas, are a
// Cluster, or Sentinels when the parameter master_name is given. User and password are the
// servers'; sentinel_username and sentinel_password are the Sentinels', if they require any. Every
// call has a timeout: Redis only carries tasks and copies, so nobody should wait long for it.
package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// bufferSize is of a connection's buffer in each direction, in bytes. A command or an answer may be
// larger; few are. The library's own 32 KiB are 2 MiB of a worker with 30 connections.
const bufferSize = 8 << 10

// Options bound a client.
type Options struct {
	Timeout time.Duration // of dialling, and of each command; 0: 2 s
	// retries of a command whose answer was lost; 0: none, since the command may have run
	Retries int
	Pool    int // connections; 0: go-redis' default
}

// Open parses address and returns a client of it. It does not connect.
func Open(address string, o Options) (redis.UniversalClient, error) {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	u.DialTimeout, u.ReadTimeout, u.WriteTimeout, u.PoolTimeout = o.Timeout, o.Timeout, o.Timeout, o.Timeout
	u.ContextTimeoutEnabled = true
	u.PoolSize = o.Pool
	u.ReadBufferSize, u.WriteBufferSize = bufferSize, bufferSize
	// One vendor's managed service has this feature. Asking other servers for it costs a command
	// for each connection, and an error line in the log.
	u.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if u.MaxRetries = o.Retries; o.Retries == 0 {
		u.MaxRetries = -1
	}
	client := redis.NewUniversalClient(u)
	client.AddHook(redial{})
	return client, nil
}

// redial keeps subscriptions alive through a failover. While the Sentinels are asked for the new
// master, a dial may end with redis.ErrClosed, which is said of a client of a Sentinel. To a
// subscription it means that its own client is closed: it would close its channel for good, from
// which asynq would then read nil, and the worker would die of that.
type redial struct{}

// DialHook gives a dial that found a closed client of a Sentinel another error, after which it is
// tried again.
func (redial) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if errors.Is(err, redis.ErrClosed) {
			err = fmt.Errorf("redis: dial %s: %s", addr, err)
		}
		return conn, err
	}
}

// ProcessHook changes nothing.
func (redial) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (redial) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func parse(address string) (*redis.UniversalOptions, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || (scheme != "redis" && scheme != "rediss") {
		return nil, errors.New("redis address: must begin with redis:// or rediss://")
	}
	authority, _, _ := strings.Cut(rest, "/")
	authority, _, _ = strings.Cut(authority, "?")
	hosts := strings.Split(authority[strings.LastIndex(authority, "@")+1:], ",")
	// The first host represents all of them while the library parses the rest: user, password,
	// database, TLS.
	single := strings.Replace(address, strings.Join(hosts, ","), hosts[0], 1)
	parsed, err := url.Parse(single)
	if err != nil {
		// the error itself would show the password
		return nil, errors.New("redis address: not a URL")
	}
	query := parsed.Query()
	own := map[string]string{"master_name": "", "sentinel_username": "", "sentinel_password": ""}
	for name := range own {
		own[name] = query.Get(name)
		query.Del(name)
	}
	master := own["master_name"]
	parsed.RawQuery = query.Encode()
	opts, err := redis.ParseURL(parsed.String())
	if err != nil {
		return nil, fmt.Errorf("redis address: %w", err)
	}
	for i, h := range hosts {
		if !strings.Contains(h, ":") {
			hosts[i] = h + ":6379"
		}
	}
	if len(hosts) > 1 && master == "" && opts.DB != 0 {
		return nil, errors.New("redis address: a Cluster has no numbered databases")
	}
	if len(hosts) == 1 && master == "" {
		hosts = []string{opts.Addr}
	}
	return &redis.UniversalOptions{
		Addrs: hosts, DB: opts.DB, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig, MasterName: master,
		SentinelUsername: own["sentinel_username"], SentinelPassword: own["sentinel_password"],
		IsClusterMode: len(hosts) > 1 && master == "",
	}, nil
}
