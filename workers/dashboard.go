package workers

import (
	"net/http"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
	"github.com/redis/go-redis/v9"
)

// dashboardPolicy keeps the page from reaching any other host; it works without the fonts that it
// requests from one.
const dashboardPolicy = "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"font-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; form-action 'self'; base-uri 'self'"

// Dashboard serves the asynq dashboard under root ("/queues"). Read-only refuses every method but
// GET and HEAD. It has no login of its own: the operations listener puts one before it. It shows
// payloads, which are ids only.
func Dashboard(root string, connect func() redis.UniversalClient, readOnly bool) http.Handler {
	h := asynqmon.New(asynqmon.Options{RootPath: root, RedisConnOpt: connOpt{connect}, ReadOnly: readOnly})
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		head := rw.Header()
		head.Set("Content-Security-Policy", dashboardPolicy)
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("Referrer-Policy", "no-referrer")
		if strings.HasPrefix(r.URL.Path, root+"/api/") {
			head.Set("Cache-Control", "no-store")
		}
		h.ServeHTTP(rw, r)
	})
}

// connOpt lets asynqmon use the connection that AJO_REDIS_URL describes.
type connOpt struct{ connect func() redis.UniversalClient }

var _ asynq.RedisConnOpt = connOpt{}

// MakeRedisClient returns a client for the dashboard to own.
func (o connOpt) MakeRedisClient() any { return o.connect() }
