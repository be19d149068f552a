package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ajo/internal/redisconn"
)

// inspectTimeout bounds what a role that starts waits for Redis.
const inspectTimeout = 2 * time.Second

// checkRedis looks at the settings of Redis that lose tasks. One that evicts keys when it is full
// is refused in production, as it loses tasks in silence, and all the time; one without an
// append-only file is only named, as its loss comes with a restart, and the sweeper heals that. The
// sandbox's is refused: each would take the other's tasks. One that is away is no error: nothing
// can be said of it.
func (c *core) checkRedis(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	servers, err := redisconn.Inspect(ctx, c.redis)
	if err != nil {
		c.log.Warn("redis does not answer; its settings were not checked", slog.Any("err", err))
		return nil
	}
	if !c.cfg.Sandbox && c.redis.Exists(ctx, sandboxMark).Val() > 0 {
		return fmt.Errorf("AJO_REDIS_URL: %w", errTestRedis)
	}
	for _, s := range servers {
		if s.Policy != redisconn.NoEviction && c.cfg.Production() {
			return fmt.Errorf("AJO_REDIS_URL: maxmemory-policy is %s, and must be %s: an evicted key is a lost task", s.Policy, redisconn.NoEviction)
		}
		if s.Policy != redisconn.NoEviction {
			c.log.Warn("redis evicts keys when it is full, and tasks with them; production refuses it", slog.String("maxmemory-policy", s.Policy))
		}
		if !s.AppendOnly {
			c.log.Warn("redis keeps no append-only file: a restart loses the tasks, and the sweep enqueues all of them again")
		}
	}
	return nil
}
