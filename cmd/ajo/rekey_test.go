package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/rekey"
	"ajo/internal/secret"
	"ajo/internal/testenv"
)

// sealBVN gives the one customer a BVN that is sealed with the key.
func (o *ops) sealBVN(key string) {
	o.T.Helper()
	box, err := secret.ParseKeys(key)
	require.NoError(o.T, err)
	id := testenv.Value[uuid.UUID](o.Env, `SELECT id FROM customers`)
	o.Exec(`UPDATE customers SET bvn = $1`, box.Seal(secret.Place{Table: "customers", Column: "bvn", Row: id.String()}, []byte("22123456789")))
}

func TestRekeyCommand(t *testing.T) {
	o := setup(t)
	o.sealBVN(o.oldKey)
	golden(t, `
		1 of 1 values of other keys would be encrypted again with "test".
		In use, values by key: old: 1.`, o.good("rekey", "--dry-run"))
	require.Empty(t, o.audited())

	out, said, err := o.run("rekey", "--yes", "--reason", "yearly rotation")
	require.NoError(t, err)
	require.Equal(t, `Encrypt 1 values again with the key "test" (values by key: old: 1).`+"\n", said)
	golden(t, `
		1 of 1 values of other keys were encrypted again with "test".
		In use, values by key: test: 1.
		Nothing is encrypted with old any more: remove it from AJO_ENCRYPTION_KEYS once every process encrypts with "test". Keep it for the backups.`, out)
	o.lastAudit("rekey", "key:test", "yearly rotation")

	again := decode[rekeyed](o, "rekey", "--yes", "--reason", "yearly rotation")
	require.Equal(t, rekeyed{Result: rekey.Result{Current: "test"}, InUse: rekey.Usage{"test": 1}}, again)
	require.Len(t, o.audited(), 1)

	for batch, args := range map[string][]string{"0": {"--batch", "0"}, "10001": {"--batch", "10001"}} {
		_, _, err = o.run(append([]string{"rekey", "--yes", "--reason", "x"}, args...)...)
		require.ErrorIs(t, err, rekey.ErrBatch, batch)
	}
	o.env["AJO_ENCRYPTION_KEYS"] = ""
	_, _, err = o.run("rekey", "--dry-run")
	require.EqualError(t, err, "AJO_ENCRYPTION_KEYS is not set")
}

// What cannot be opened is named with its key and row, and the command fails, after it has done the
// rest.
func TestRekeyWithoutTheOldKey(t *testing.T) {
	o := setup(t)
	o.sealBVN(secret.NewKey("lost").Reveal())
	out, _, err := o.run("rekey", "--yes", "--reason", "yearly rotation")
	require.Equal(t, exitCode(1), err)
	golden(t, `
		0 of 1 values of other keys were encrypted again with "test".
		In use, values by key: lost: 1.
		Nothing is encrypted with old any more: remove it from AJO_ENCRYPTION_KEYS once every process encrypts with "test". Keep it for the backups.

		COLUMN  KEY  VALUES  FIRST ROW  WHY NOT
		customers.bvn  lost  1  <id>  the key "lost" is not in AJO_ENCRYPTION_KEYS`, out)
	require.Empty(t, o.audited())
}
