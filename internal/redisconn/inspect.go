package redisconn

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// NoEviction is the only policy with which a full Redis loses no task.
const NoEviction = "noeviction"

// Server is what a server reports of itself.
type Server struct {
	Policy     string // maxmemory-policy
	AppendOnly bool   // whether it keeps an append-only file
}

// Inspect reads the settings of the server, of the Sentinels' master, or of each master of a
// Cluster. It uses INFO, which managed services answer even if they refuse CONFIG.
func Inspect(ctx context.Context, c redis.UniversalClient) ([]Server, error) {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		s, err := inspectServer(ctx, c)
		return []Server{s}, err
	}
	var mu sync.Mutex
	var all []Server
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		s, err := inspectServer(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, s)
		return err
	})
	return all, err
}

func inspectServer(ctx context.Context, c redis.Cmdable) (Server, error) {
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
