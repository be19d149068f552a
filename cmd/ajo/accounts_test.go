package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/account"
	"ajo/internal/fakebank"
	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/testenv"
	"ajo/internal/work"
	"ajo/ledger"
)

// An expired account that the bank does not close is closed by an operator, once, with a reason,
// and not while it has money.
func TestAccountCloseCommand(t *testing.T) {
	o := setup(t)
	closeIt := []string{"accounts", "close", o.account.String(), "--reason", "ticket 1"}
	_, _, err := o.run(append(closeIt, "--yes")...)
	require.ErrorIs(t, err, account.ErrNotClosable, "it is active")
	posted := o.event(o.account.String())
	o.Exec(`UPDATE accounts SET status = 'expired', expired_at = $2, last_error = 'the bank is away' WHERE id = $1`, o.account, o.Clock.Now())
	o.Schedule(work.Expire, o.account, o.Clock.Now())
	_, _, err = o.run(append(closeIt, "--yes")...)
	require.ErrorIs(t, err, account.ErrHasMoney)
	o.move(posted, ledger.Credit, ledger.EventReverse)
	_, said, err := o.run(closeIt...)
	require.ErrorIs(t, err, errUnasked)
	require.Contains(t, masked(said), `Close account "customer-1" (<number>) of tenant "Test tenant", expired and not closed at the bank: the bank is away. The bank is not asked again.`)
	_, _, err = o.run("accounts", "close", o.account.String(), "--yes")
	require.ErrorContains(t, err, "--reason")
	require.Empty(t, o.audited())
	require.Contains(t, o.good(append(closeIt, "--yes")...), "is closed.")
	require.Equal(t, "true", testenv.Value[string](o.Env, `SELECT (closed_at IS NOT NULL)::text FROM accounts WHERE id = $1`, o.account))
	require.Nil(t, o.DueAt(work.Expire, o.account))
	_, _, err = o.run(append(closeIt, "--yes")...)
	require.ErrorIs(t, err, account.ErrNotClosable)
	log := o.audited()
	require.Len(t, log, 1)
	require.Equal(t, []string{"accounts.close", "account:" + o.account.String(), "ticket 1"}, []string{log[0].Action, log[0].Target, log[0].Reason})
	_, _, err = o.run("accounts", "close", uuid.NewString(), "--reason", "x", "--yes")
	require.ErrorIs(t, err, account.ErrNotFound)
	o.booksAgree()
}

// A row that never became an account is removed, and what the bank has opened for it is closed.
func TestAccountCloseCommandEndsAProvisioning(t *testing.T) {
	for name, atBank := range map[string]bool{"with the bank": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			o := setup(t)
			id := o.unfinished()
			o.Exec(`UPDATE accounts SET leased_until = now() + interval '1 hour' WHERE id = $1`, id)
			url, err := o.bank.Start("127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, o.bank.Close()) })
			client := testenv.BankClient(t, o.bank, o.Clock)
			opened, err := client.CreateAccount(o.ctx, provider.NewAccount{Ref: id.String(), Name: "Ada Stores"})
			require.NoError(t, err)
			if atBank {
				bankSettings(o.env, url)
			}
			closeIt := []string{"accounts", "close", id.String(), "--reason", "ticket 2", "--yes"}
			_, _, err = o.run(closeIt...)
			require.ErrorIs(t, err, account.ErrNotClosable, "a request is at the bank with it")
			o.Exec(`UPDATE accounts SET leased_until = NULL WHERE id = $1`, id)
			out, said, err := o.run(closeIt...)
			require.NoError(t, err)
			require.Contains(t, said, `Remove account "abandoned" of tenant "Test tenant", which was never opened: no answer. Its reference is free again.`)
			require.Zero(t, testenv.Value[int](o.Env, `SELECT count(*) FROM accounts WHERE id = $1`, id))
			require.Equal(t, "accounts.close", o.audited()[0].Action)
			_, err = o.bank.Pay(o.ctx, fakebank.Payment{NUBAN: opened.Number, Amount: money.Must("10.00"), Silent: true})
			if atBank {
				require.Contains(t, out, "the bank has no number for it")
				require.Error(t, err, "the number is closed")
				return
			}
			require.Contains(t, out, id.String()+" is not closed there (AJO_PROVIDER_URL is not set")
			require.NoError(t, err)
		})
	}
}

// An operator ends a hold that its tenant cannot end, once.
func TestReleaseHoldCommand(t *testing.T) {
	o := setup(t)
	id := o.holdOfLimit()
	o.booksAgree()
	release := []string{"accounts", "release", id.String(), "--reason", "ticket 3", "--yes"}
	out, said, err := o.run(release...)
	require.NoError(t, err)
	require.Contains(t, said, `Release NGN 1.00 of account "customer-1", held since `)
	require.Contains(t, said, "maxDeposit of tier 1: NGN 1.00.")
	require.Equal(t, "The hold of NGN 1.00 is released.\n", out)
	o.lastAudit("accounts.release", "account:"+o.account.String(), "ticket 3")
	require.Equal(t, "released", testenv.Value[string](o.Env, `SELECT status FROM holds WHERE id = $1`, id))
	_, _, err = o.run(release...)
	require.ErrorIs(t, err, ledger.ErrHoldEnded)
	_, _, err = o.run("accounts", "release", uuid.NewString(), "--reason", "x", "--yes")
	require.ErrorIs(t, err, ledger.ErrHoldNotFound)
	require.Len(t, o.audited(), 1)
	o.booksAgree()
}
