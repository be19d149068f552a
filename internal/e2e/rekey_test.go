package e2e

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// The encryption key is changed as docs/operations.md says it, beside a running API: `ajo rekey` is
// killed midway and run again, the API goes on serving, and in the end the old key is not needed
// any more.
func TestRekeyBesideTheService(t *testing.T) {
	const customers = 600
	w := newWorld(t)
	old, fresh := w.settings["AJO_ENCRYPTION_KEYS"], secret.NewKey("fresh").Reveal()
	w.startAPI()
	e := newEndpoint(t)
	c := w.signUp(e) // has a signing secret now, under the old key
	w.sealBVNs(c.id, customers, old)

	w.stops(w.api)
	// every process learns to open the new key before one seals with it
	w.settings["AJO_ENCRYPTION_KEYS"] = old + "," + fresh
	w.startAPI()
	w.settings["AJO_ENCRYPTION_KEYS"] = fresh + "," + old
	rekey := []string{"rekey", "--batch", "1", "--yes", "--reason", "yearly rotation"}
	sealed := func() int {
		return w.count(`SELECT count(*) FROM customers WHERE substr(bvn, 3, 5) = 'fresh'`)
	}
	// has a row in hand, which holds the run midway
	somebody, err := w.Pool.Begin(context.Background())
	require.NoError(t, err)
	// else a failure would wait for it for ever
	t.Cleanup(func() { _ = somebody.Rollback(context.Background()) })
	_, err = somebody.Exec(context.Background(), `SET LOCAL idle_in_transaction_session_timeout = 0`) // however slow the run is
	require.NoError(t, err)
	_, err = somebody.Exec(context.Background(), `SELECT FROM customers WHERE id = (SELECT id FROM customers ORDER BY id OFFSET $1 LIMIT 1) FOR UPDATE`, customers/10)
	require.NoError(t, err)
	killed := start(t, w.dir, w.settings, rekey...)
	w.eventually("the values before it to be sealed anew", func() bool { return sealed() == customers/10 })
	killed.Kill()
	require.NoError(t, somebody.Rollback(context.Background()))
	require.Less(t, sealed(), customers, "it was killed midway")
	c.want(200, "POST", "/auth/webhook-secret", nil) // opens it under whichever key

	rekey[2] = "500"
	done := runToEnd(t, w.dir, w.settings, rekey...)
	require.Zero(t, done.code, done.out)
	require.Contains(t, done.out, "Nothing is encrypted with test any more")
	require.Equal(t, customers, sealed())
	c.want(200, "POST", "/auth/webhook-secret", nil)
	w.stops(w.api)
	w.settings["AJO_ENCRYPTION_KEYS"] = fresh
	w.startAPI()
	c.want(200, "POST", "/auth/webhook-secret", nil)
	p := w.startWorker("")
	w.payAndTell(c.open("shop-1").BankAccountNumber, "5000.00")
	w.eventually("a signed delivery", func() bool { return len(e.received()) == 1 })
	e.checkAll()
	w.stops(p)

	w.settings["AJO_ENCRYPTION_KEYS"] = old // too early to go back: refused by name
	back := runToEnd(t, w.dir, w.settings, "rekey", "--dry-run")
	require.Equal(t, 1, back.code)
	require.Contains(t, back.out, `the key "fresh" is not in AJO_ENCRYPTION_KEYS`)
}

// sealBVNs makes customers of a tenant with a BVN each, sealed with the first of the keys.
func (w *world) sealBVNs(tenant string, n int, keys string) {
	w.t.Helper()
	box, err := secret.ParseKeys(keys)
	require.NoError(w.t, err)
	ids, values := make([]uuid.UUID, n), make([][]byte, n)
	for i := range ids {
		ids[i] = uuid.Must(uuid.NewV7())
		values[i] = box.Seal(secret.Place{Table: "customers", Column: "bvn", Row: ids[i].String()}, []byte("22123456789"))
	}
	w.Exec(`INSERT INTO customers (id, tenant_id, external_ref, name, bvn, created_at, updated_at)
		SELECT v.id, $1, v.id::text, 'Ada Obi', v.bvn, now(), now() FROM unnest($2::uuid[], $3::bytea[]) AS v (id, bvn)`, tenant, ids, values)
	require.Equal(w.t, n, int(testenv.Value[int64](w.Env, `SELECT count(*) FROM customers WHERE bvn IS NOT NULL`)))
}
