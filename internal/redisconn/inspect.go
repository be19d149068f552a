package redisconn

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// NoEviction is the one policy under which a full Redis loses no task.
const NoEviction = "noeviction"

// Server is what a server says of itself.
type Server struct {
	Policy     string // maxmemory-policy
	AppendOnly bool   // it writes what it keeps to an append-only file
}

// Inspect asks the server, the Sentinels' master, or each master of a Cluster, what it is set to.
// It asks with INFO, which managed services answer too, where they refuse CONFIG.
func Inspect(ctx context.Context, c redis.UniversalClient) ([]Server, error) {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		s, err := inspect(ctx, c)
		return []Server{s}, err
	}
	var mu sync.Mutex
	var all []Server
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		s, err := inspect(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
		return err
	})
	return all, err
}

func inspect(ctx context.Context, c redis.Cmdable) (Server, error) {
	info, err := c.Info(ctx).Result()
	if err != nil {
		return Server{}, err
	}
	var s Server
	for line := range strings.Lines(info) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "maxmemory_policy":
			s.Policy = value
		case "aof_enabled":
			s.AppendOnly = value == "1"
		}
	}
	if s.Policy == "" {
		return s, errors.New("redis does not say what its maxmemory-policy is")
	}
	return s, nil
}
