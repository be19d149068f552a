package e2e

import (
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/invariant"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/provider/nomba"
	"ajo/internal/testenv"
	"ajo/ledger"
)

// refunding pays a payment back in two parts to the account that the bank's record names.
func (c *crash) refunding(n int) unit {
	account := c.Account(c.tenant, fmt.Sprintf("shop-%d", n))
	// a payment that the bank finds: of many that it does not find, none is believed
	c.OpenAtBank(c.bank, account, func(o *nomba.Options) { o.ClientSecret = c.settings["AJO_PROVIDER_CLIENT_SECRET"] })
	tx, err := c.bank.Pay(c.t.Context(), fakebank.Payment{AccountRef: account.String(), Amount: money.Must("100.00"), Fee: &money.Zero, Silent: true})
	require.NoError(c.t, err)
	group := c.creditOf(account, tx.Amount, tx.ID)
	c.Exec(`DELETE FROM work WHERE id = $1`, group)
	var entry uuid.UUID
	require.NoError(c.t, pg.InTx(c.t.Context(), c.Pool, func(tx pg.Tx) error {
		sender := ledger.Sender{Name: "AMINA BELLO", AccountNumber: "0123456789", BankCode: "058"}
		moved, err := ledger.MoveEntries(c.t.Context(), tx, time.Now(), []ledger.Move{
			{TransactionGroupID: group, Direction: ledger.Credit, Event: ledger.EventConfirm, Sender: &sender},
		})
		if err == nil {
			entry, err = moved[0].EntryID, moved[0].Err
		}
		return err
	}))
	refs := map[string]string{"60.00": "", "40.00": ""}
	return func() bool {
		if !c.another() {
			return false
		}
		for amount, ref := range refs {
			if ref == "" {
				a, ok := c.ask("POST", "/v1/entries/"+entry.String()+"/refund", map[string]string{"amount": amount},
					map[string]string{"X-Api-Key": c.key, "Idempotency-Key": entry.String() + amount})
				if !ok || a.status == http.StatusConflict || a.status >= 500 {
					return false
				}
				require.Equal(c.t, http.StatusAccepted, a.status, "%s", a.body)
				var accepted struct{ MerchantTxRef string }
				a.into(c.t, &accepted)
				refs[amount] = accepted.MerchantTxRef
				return false
			}
			if !c.paidOrLost(ref) {
				return false
			}
		}
		return true
	}
}

// checkRefunds: each payment went back once, to the kobo, but for what was lost.
func (c *crash) checkRefunds(units int) {
	c.t.Helper()
	require.Len(c.t, c.bank.Paid(), 2*units+len(c.others)-len(c.lost))
	require.Equal(c.t, units, c.count(`SELECT count(*) FROM (
		SELECT FROM transfers t JOIN ledger_entries e ON e.id = t.refund_of WHERE t.status = 'success' OR t.merchant_tx_ref = ANY($1) GROUP BY e.id, e.amount HAVING sum(t.amount) = e.amount) s`, c.lost))
	require.Equal(c.t, 2*units+len(c.others), c.count(`SELECT count(*) FROM transfers`))
	testenv.FindsNothing(c.t, c.Pool, invariant.Verify)
}
