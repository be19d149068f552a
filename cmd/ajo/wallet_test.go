package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/transfer"
)

func TestWalletCommands(t *testing.T) {
	o := setup(t)
	move := []string{"wallet", "move", "other", "--host", "bank.example", "--yes", "--reason", "another contract"}
	out, said, err := o.run(move...)
	require.NoError(t, err)
	require.Equal(t, "The books are of account \"other\" at bank.example from now on, so far of none.\n", said)
	require.Equal(t, "The books are of account \"other\" at bank.example.\n", out)
	o.lastAudit("wallet.move", "wallet:other", "another contract")
	require.Equal(t, "The books are of account \"other\" at bank.example already.\n", o.good(move...))

	bankSettings(o.env, o.Bank(fakebank.Options{}).URL())
	_, _, err = o.run("reconcile", "--from", "1h")
	require.ErrorIs(t, err, transfer.ErrWallet, "the bank's list of another account")
	require.Contains(t, o.good("transfers", "list"), "none", "what asks no bank goes on")

	o.transfer("processing")
	_, _, err = o.run("wallet", "move", "third", "--host", "bank.example", "--yes", "--reason", "a mistake")
	require.ErrorIs(t, err, transfer.ErrWalletWaits)
	o.Exec(`DELETE FROM work`)
	o.good("wallet", "move", "third", "--host", "bank.example", "--yes", "--reason", "another bank")
}
