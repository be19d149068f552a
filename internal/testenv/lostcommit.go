package testenv

import (
	"context"
	"net/url"

	"ajo/internal/pg"
)

// LostCommits is a way to the test's database on which answers to COMMIT can be lost: the
// transaction stands, and its caller learns of a broken connection only.
type LostCommits struct {
	*Proxy
	Pool *pg.Pool
}

// LostCommits opens a pool that reaches the test's database through a proxy of its own.
func (e *Env) LostCommits() *LostCommits {
	e.T.Helper()
	u, err := url.Parse(e.DatabaseURL)
	must(e.T, err)
	l := &LostCommits{Proxy: NewProxy(e.T, u.Host, true)}
	u.Host = l.Addr
	q := u.Query()
	q.Set("sslmode", "disable") // the proxy reads what passes
	u.RawQuery = q.Encode()
	l.Pool, err = pg.Open(context.Background(), u.String(), 8)
	must(e.T, err)
	e.T.Cleanup(l.Pool.Close)
	return l
}
