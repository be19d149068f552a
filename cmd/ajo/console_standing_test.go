package main

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/console"
	"ajo/internal/operator"
	"ajo/internal/testenv"
)

// An action that waits is none any more when its operator was removed, reset or logged out
// meanwhile.
func TestAnActionOfAnOperatorWhoIsGone(t *testing.T) {
	o := setup(t)
	url := o.console()
	a := console.Actions[slices.IndexFunc(console.Actions, func(a console.Action) bool { return a.Command == "tenant suspend" })]
	for name, end := range map[string]func(d *desk){
		"ada":  func(*desk) { o.good("operator", "remove", "ada", "--yes", "--reason", "has left") },
		"bola": func(*desk) { o.good("operator", "reset", "bola", "--yes", "--reason", "lost the phone") },
		"chi":  func(d *desk) { require.Equal(t, 200, d.post("/console/api/logout", nil, nil)) },
	} {
		d := o.login(url, name, operator.Actor)
		body := map[string]any{"values": map[string]string{"tenant": o.tenant.String()}, "reason": "a ticket", "saw": ""}
		var said acting
		require.Equal(t, 200, d.post(a.Path(), body, &said))
		body["saw"] = said.Will
		tx, err := o.Pool.Begin(o.ctx)
		require.NoError(t, err)
		_, err = tx.Exec(o.ctx, `SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE`, o.tenant)
		require.NoError(t, err)
		status := make(chan int, 1)
		go func() { status <- d.post(a.Path(), body, nil) }()
		testenv.Eventually(t, 10*time.Second, "the action waits for the lock", func() bool { return o.LockWaits() > 0 })
		end(d)
		require.NoError(t, tx.Rollback(o.ctx))
		require.Equal(t, 401, <-status, name)
		require.Equal(t, "active", testenv.Value[string](o.Env, `SELECT status FROM tenants WHERE id = $1`, o.tenant))
	}
}
