package app

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"ajo/internal/clock"
	"ajo/internal/config"
	"ajo/internal/freeze"
	"ajo/internal/page"
	"ajo/internal/pg"
)

// opsFreezes shows what operators have stopped and not let go on: the newest 100 freezes that
// stand, suspended tenants, and whether there may be more. A view has a connection of its own, so
// that the page works in every process.
func opsFreezes(cfg config.Config, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		list, more, err := standingFreezes(ctx, cfg, log)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		w.Header().Set("Cache-Control", "no-store")
		if err != nil { // nothing that is not known is shown as "nothing is stopped"
			log.Error("the freezes could not be read", slog.Any("err", err))
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := freezesPage.Execute(w, freezesView{list, more, err != nil}); err != nil && !errors.Is(err, context.Canceled) {
			log.Warn("the page of freezes was not sent", slog.Any("err", err))
		}
	})
}

// standingFreezes reads the page's rows; more says that there may be others.
func standingFreezes(ctx context.Context, cfg config.Config, log *slog.Logger) (list []freeze.Freeze, more bool, err error) {
	pool, err := pg.Open(ctx, cfg.DatabaseURL.Reveal(), 1)
	if err != nil {
		return nil, false, err
	}
	defer pool.Close()
	var now clock.Synced // by the machine's clock one may seem to have ended
	if err := syncClock(ctx, pool, &now, log); err != nil {
		return nil, false, err
	}
	s := freeze.Service{Pool: pool, Clock: &now}
	list, info, err := s.List(ctx, freeze.Standing, page.Request{Limit: page.Max})
	return list, info.HasMore || freeze.LacksSuspended(list), err
}

type freezesView struct {
	List   []freeze.Freeze
	More   bool
	Failed bool
}

var freezesPage = template.Must(template.New("freezes").Funcs(template.FuncMap{
	"time": func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Freezes · Ajo operations</title></head><body>
<p><a href="/">Ajo operations</a></p>
<h1>What is stopped</h1>
{{if .Failed}}<p role="alert">The freezes could not be read. Ask <code>ajo freeze list</code>.</p>
{{else if not (or .List .More)}}<p>Nothing is stopped: all payouts go out.</p>
{{else}}{{if .List}}<table>
<thead><tr><th scope="col">Payouts of</th><th scope="col">Since</th><th scope="col">Until</th><th scope="col">Settle requests</th><th scope="col">By</th><th scope="col">Why</th><th scope="col">To end it</th></tr></thead>
<tbody>
{{range .List}}<tr><th scope="row">{{.Target}}</th><td>{{with .CreatedAt}}{{time .}}{{end}}</td><td>{{with .Until}}{{time .}}{{else}}{{if eq .Scope "suspension"}}it is activated{{else}}it is lifted{{end}}{{end}}</td>
<td>{{if .Requests}}refused{{else}}wait{{end}}</td><td>{{.Actor}}</td><td>{{.Reason}}</td><td><code>{{if eq .Scope "suspension"}}ajo tenant activate {{.Subject}}{{else}}ajo freeze lift {{.ID}}{{end}}</code></td></tr>
{{end}}</tbody>
</table>
{{end}}{{if .More}}<p>There may be more: ask <code>ajo freeze list --status standing</code> and <code>ajo tenant list --status suspended</code>.</p>
{{end}}{{end}}</body></html>
`))
