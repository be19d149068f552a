package main

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/internal/provider"
	"ajo/internal/tenant"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// says runs a change that is not agreed to, and returns its sentence.
func (o *ops) says(args ...string) string {
	o.T.Helper()
	_, said, err := o.run(append(args, "--reason", "ticket 1")...)
	require.ErrorIs(o.T, err, errUnasked)
	return said
}

// Who revokes a key reads which one it is; of one that is no more nothing is asked.
func TestRevokeKeySaysWhichOne(t *testing.T) {
	o := setup(t)
	id := o.apiKey()
	revoke := []string{"tenant", "revoke-key", o.tenant.String(), id.String()}
	require.Contains(t, o.says(revoke...), `Revoke the API key "Reader" (…4fQ7) of tenant "Test tenant"`)
	main := uuid.Must(uuid.NewV7())
	o.Exec(`INSERT INTO api_keys (id, tenant_id, main, name, hash, suffix, scopes, networks, created_at)
		VALUES ($1, $2, true, 'Main', sha256($3), '…9xYz', NULL, '{}', now())`, main, o.tenant, main[:])
	require.Contains(t, o.says("tenant", "revoke-key", o.tenant.String(), main.String()), `Revoke the main API key "Main" (…9xYz) of tenant "Test tenant"`)
	out, said, err := o.run(append(revoke, "--yes", "--reason", "ticket 1")...)
	require.NoError(t, err)
	require.Contains(t, out, `API key "Reader" (…4fQ7) of tenant "Test tenant"`)
	require.Contains(t, said, "it is refused from the next request on")
	n := len(o.audited())
	out, said, err = o.run(append(revoke, "--reason", "ticket 1")...)
	require.NoError(t, err)
	require.Contains(t, out, "is revoked already; nothing was changed.")
	require.Empty(t, said)
	require.Len(t, o.audited(), n)
	for _, of := range []string{uuid.NewString(), "x"} {
		_, said, err := o.run("tenant", "revoke-key", o.tenant.String(), of, "--reason", "ticket 1")
		require.ErrorIs(t, err, tenant.ErrKeyNotFound)
		require.Empty(t, said)
	}
}

// A sentence names whose money it is about, and how much of it.
func TestSentencesNameThePayment(t *testing.T) {
	o := setup(t)
	require.Contains(t, o.says("recalls", "open", o.confirmed().String()), `Hold the payment of NGN 5000.00, NGN 4975.00 after the bank's fee, from "Bola Ade" to account "customer-1" of tenant "Test tenant" (transaction API-VACT_TRA-`)
	stray := o.event("nobody")
	require.NotContains(t, o.says("recalls", "open", stray.String()), "to account")
	c := openCounter(o.Env, o.bank, o.account)
	bankSettings(o.env, o.bank.URL())
	id := c.posted(c.paid(), ledger.EventConfirm)
	ref := testenv.Value[string](o.Env, `SELECT provider_txn_ref FROM inbound_events WHERE id = $1`, id)
	require.Contains(t, o.says("review", "sender", id.String()), "as the sender of the payment "+ref+" of NGN ")
	approved := o.customerIn("approved")
	require.Contains(t, o.says("customers", "tier", approved, "1"), "Set the tier of customer ")
	require.Contains(t, o.says("customers", "tier", approved, "1"), "to 1: an approval is taken back, and its KYC is none again.")
	require.NotContains(t, o.says("customers", "tier", approved, "3"), "approval")
}

// A second person reads that the charges are booked: no record of the bank names them.
func TestChargesAreBookedAlready(t *testing.T) {
	o := setup(t)
	ref, _ := o.transfer("processing")
	o.good("transfers", "resolve", ref, "--paid", "--yes", "--reason", "the bank's letter")
	charges := []string{"transfers", "charges", ref, "--fee", "20.00", "--yes", "--reason", "the bank's letter"}
	o.good(charges...)
	_, _, err := o.run(charges...)
	require.EqualError(t, err, "the charges are booked already, as the bank's record or a person had them; without an answer of the bank they are not booked again")
}

// What was booked is found at the next sweep, also where other payouts could not be booked.
func TestAdoptSaysWhatWaitsForASweep(t *testing.T) {
	o := setup(t)
	c := openCounter(o.Env, o.bank, o.account)
	bankSettings(o.env, o.bank.URL())
	o.env["AJO_REDIS_URL"] = ""
	_, err := c.client.Pay(o.ctx, provider.NewPayout{Ref: "BY-HAND-7", Amount: money.Must("5.00"), BankCode: "058", AccountNumber: "0123456789", AccountName: "AMINA BELLO", SenderName: "Ada Stores", Narration: "rent"})
	require.NoError(t, err)
	adopt := func(refs ...string) error {
		_, _, err := o.run(append(append([]string{"transfers", "adopt", "--account", o.account.String(), "--yes", "--reason", "a restore"}, refs...), "BY-HAND-8")...)
		return err
	}
	require.NotContains(t, adopt().Error(), errNotEnqueued.Error(), "nothing was booked")
	err = adopt("BY-HAND-7")
	require.ErrorContains(t, err, "1 payouts were booked. Not booked:\nBY-HAND-8: ")
	require.ErrorContains(t, err, errNotEnqueued.Error())
}
