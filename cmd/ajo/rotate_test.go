package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// Two operators who give a tenant a new secret at once give it one: the second would end the secret
// that the tenant has, which both sentences said goes on signing.
func TestTwoRotationsAtOnce(t *testing.T) {
	o := setup(t)
	rotate := []string{"tenant", "rotate-secret", o.tenant.String(), "--yes", "--reason", "it leaked"}
	for _, first := range []bool{true, false} {
		before := testenv.Value[int](o.Env, `SELECT count(*) FROM audit_log`)
		lock, err := o.Pool.Begin(o.ctx)
		require.NoError(t, err)
		_, err = lock.Exec(o.ctx, `SELECT FROM tenants WHERE id = $1 FOR UPDATE`, o.tenant)
		require.NoError(t, err)
		ends := make(chan error, 2)
		for range 2 {
			go func() {
				_, _, err := o.run(rotate...)
				ends <- err
			}()
		}
		testenv.Eventually(t, time.Minute, "both to wait", func() bool { return o.LockWaits() == 2 })
		require.NoError(t, lock.Rollback(o.ctx))
		one, other := <-ends, <-ends
		if one != nil {
			one, other = other, one
		}
		require.NoError(t, one, first)
		require.EqualError(t, other, "the tenant was given another signing secret meanwhile: read what it has, and decide again", first)
		require.Equal(t, before+1, testenv.Value[int](o.Env, `SELECT count(*) FROM audit_log`))
	}
}
