package fakebank_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/fakebank"
	"ajo/internal/money"
)

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// status asks for a payout by its reference.
func (b *bundle) status(ref string) reply {
	b.t.Helper()
	return b.do("GET", "/v1/transactions/accounts/single?merchantTxRef="+ref, "")
}

func TestPayoutWire(t *testing.T) {
	b := setup(t, fakebank.Options{OpeningBalance: money.Must("10000"), PayoutFee: money.Must("20")})
	a := b.submit("transfer-1", "1500.50")
	p, ok := b.Payout("transfer-1")
	require.True(t, ok)
	require.JSONEq(t, `{"code":"00","description":"Success","status":false,"data":{
		"id":"`+p.ID+`","status":"SUCCESS","amount":1500.5,"fee":20.0,"type":"transfer","source":"api",
		"meta":{"merchantTxRef":"transfer-1","narration":"settlement","bankCode":"058"},"timeCreated":"2026-03-02T09:30:00Z"}}`, a.text)
	require.Equal(t, "8479.50", b.Wallet().String())

	require.Equal(t, p.ID, b.submit("transfer-1", "1500.50").get("data", "id"), "a repeat is answered with the original")
	require.Equal(t, "06", b.submit("transfer-1", "1500.51").get("code"), "but not for another amount")
	require.Len(t, b.Paid(), 1)
	p, _ = b.Payout("transfer-1")
	require.Equal(t, 3, p.Submissions)
	require.Equal(t, "8479.50", b.Wallet().String())

	a = b.status("transfer-1")
	require.Equal(t, "SUCCESS", a.get("data", "status"))
	require.Equal(t, "1500.5", a.get("data", "amount"))
	require.Equal(t, "transfer-1", a.get("data", "merchantTxRef"))
	require.Equal(t, 404, b.status("transfer-2").status)

	for _, body := range []string{
		`{"amount":"5","accountNumber":"0123456789","accountName":"A","bankCode":"058","merchantTxRef":"x","senderName":"s"}`,
		`{"amount":5.001,"accountNumber":"0123456789","accountName":"A","bankCode":"058","merchantTxRef":"x","senderName":"s"}`,
		`{"amount":0,"accountNumber":"0123456789","accountName":"A","bankCode":"058","merchantTxRef":"x","senderName":"s"}`,
		`{"amount":5,"accountNumber":"012345678","accountName":"A","bankCode":"058","merchantTxRef":"x","senderName":"s"}`,
		`{"amount":5,"accountNumber":"0123456789","accountName":"A","bankCode":"0","merchantTxRef":"x","senderName":"s"}`,
		`{"amount":5,"accountNumber":"0123456789","accountName":"A","bankCode":"058","senderName":"s"}`,
	} {
		a := b.do("POST", "/v2/transfers/bank", body)
		require.Equal(t, 200, a.status, body)
		require.Equal(t, "02", a.get("code"), body)
	}
}

func TestPayoutEndsWithTheClock(t *testing.T) {
	hooks := receive(t, nil)
	b := setup(t, fakebank.Options{PayoutDelay: time.Minute, WebhookURL: hooks.url})
	require.Equal(t, "PENDING_BILLING", b.submit("transfer-1", "100").get("data", "status"))
	require.Equal(t, "PENDING_BILLING", b.status("transfer-1").get("data", "status"))
	require.Empty(t, b.Paid())
	require.Equal(t, "-100.00", b.Wallet().String())
	b.clock.Advance(time.Minute)
	require.Equal(t, "SUCCESS", b.status("transfer-1").get("data", "status"))
	require.Len(t, b.Paid(), 1)
	b.flush()
	require.Len(t, hooks.all(), 1)
	require.Contains(t, string(hooks.all()[0].body), `"event_type":"payout_success"`)
	require.Contains(t, string(hooks.all()[0].body), `"merchantTxRef":"transfer-1"`)
	require.True(t, hooks.all()[0].signatureHolds(t, fakebank.DefaultWebhookSecret))
}

func TestPayoutOutcomes(t *testing.T) {
	tests := []struct {
		rule                  fakebank.Rule
		code, first           any // in the answer to the submission; nil: no answer, or no data
		http                  int // 0: the connection is cut
		soon, finally, wallet string
	}{
		{fakebank.Rule{Do: fakebank.Paid}, "00", "SUCCESS", 200, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.Reject}, "06", nil, 200, "", "", "0.00"},
		{fakebank.Rule{Do: fakebank.Reject, Code: "05"}, "05", nil, 200, "", "", "0.00"},
		{fakebank.Rule{Do: fakebank.Drop}, nil, nil, 0, "", "", "0.00"},
		{fakebank.Rule{Do: fakebank.DropAfter}, nil, nil, 0, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.Fail}, "01", nil, 500, "", "", "0.00"},
		{fakebank.Rule{Do: fakebank.FailAfter}, "01", nil, 500, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.FailAfter, Status: 502}, "01", nil, 502, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.Refuse}, "01", nil, 200, "", "", "0.00"},
		{fakebank.Rule{Do: fakebank.Garbage}, nil, nil, 200, "", "", "0.00"},
		{fakebank.Rule{Do: fakebank.Processing, Delay: time.Minute}, "201", nil, 201, "PENDING_BILLING", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.Processing}, "201", nil, 201, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.Pending, Delay: time.Minute}, "00", "PENDING_BILLING", 200, "PENDING_BILLING", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.Pending}, "00", "PENDING_BILLING", 200, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.FailLater, Delay: time.Minute}, "00", "PENDING_BILLING", 200, "PENDING_BILLING", "PAYMENT_FAILED", "0.00"},
		{fakebank.Rule{Do: fakebank.Refund, Delay: time.Minute}, "00", "SUCCESS", 200, "SUCCESS", "REFUND", "0.00"},
		{fakebank.Rule{Do: fakebank.Refund}, "00", "SUCCESS", 200, "REFUND", "REFUND", "0.00"},
		{fakebank.Rule{Do: fakebank.PaidLate, Delay: time.Minute}, "00", "PAYMENT_FAILED", 200, "PAYMENT_FAILED", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.FailedLate, Delay: time.Minute}, "00", "SUCCESS", 200, "SUCCESS", "PAYMENT_FAILED", "0.00"},
		{fakebank.Rule{Do: fakebank.PartialRefund, Delay: time.Minute, Value: "40"}, "00", "SUCCESS", 200, "SUCCESS", "REFUND", "-60.00"},
		{fakebank.Rule{Do: fakebank.PartialRefund, Delay: time.Minute}, "00", "SUCCESS", 200, "SUCCESS", "REFUND", "-99.00"},
		{fakebank.Rule{Do: fakebank.Duplicate}, "06", nil, 200, "SUCCESS", "SUCCESS", "-100.00"},
		{fakebank.Rule{Do: fakebank.WrongRecord}, "00", "SUCCESS", 200, "SUCCESS", "SUCCESS", "-100.00"},
	}
	for _, tt := range tests {
		t.Run(string(tt.rule.Do)+"/"+tt.rule.Delay.String(), func(t *testing.T) {
			b := setup(t, fakebank.Options{})
			tt.rule.On, tt.rule.Next = fakebank.OnPayouts, 1
			b.Faults.Set(tt.rule)
			a := b.submit("transfer-1", "100")
			require.Equal(t, tt.http, a.status)
			require.Equal(t, tt.http == 0, a.err != nil)
			require.Equal(t, tt.code, a.get("code"))
			require.Equal(t, tt.first, a.get("data", "status"))
			if tt.rule.Do == fakebank.WrongRecord {
				require.NotEqual(t, "transfer-1", a.get("data", "meta", "merchantTxRef"))
			}
			status, _ := b.status("transfer-1").get("data", "status").(string)
			require.Equal(t, tt.soon, status)
			b.clock.Advance(time.Minute)
			status, _ = b.status("transfer-1").get("data", "status").(string)
			require.Equal(t, tt.finally, status)
			require.Equal(t, tt.wallet, b.Wallet().String())
			require.Equal(t, tt.finally == "SUCCESS", len(b.Paid()) == 1)

			require.Equal(t, "00", b.submit("transfer-1", "100").get("code"), "the rule is spent")
			require.LessOrEqual(t, len(b.Paid()), 1)
		})
	}
}

// The bank has the payout, and for a while neither a question nor the list shows it; its reference
// is a duplicate at once.
func TestPayoutOfALaggingIndex(t *testing.T) {
	b := setup(t, fakebank.Options{})
	b.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Lagging, Delay: time.Minute, Next: 1})
	a := b.submit("one", "100")
	require.Equal(t, 201, a.status)
	require.Equal(t, "201", a.get("code"))
	listed := func() []any {
		list, _ := b.do("POST", "/v1/transactions/accounts", `{}`).get("data", "results").([]any)
		return list
	}
	for range 2 {
		require.Equal(t, "06", b.submit("one", "100").get("code"))
		require.Equal(t, 404, b.status("one").status)
		require.Empty(t, listed())
	}
	require.Len(t, b.Paid(), 1, "paid, by the bank's own books")
	b.clock.Advance(time.Minute)
	require.Equal(t, "SUCCESS", b.status("one").get("data", "status"))
	require.Len(t, listed(), 1)
	require.Equal(t, "06", b.submit("one", "100").get("code"))
	require.Equal(t, "-100.00", b.Wallet().String())

	b.Faults.Set(fakebank.Rule{On: fakebank.OnPayouts, Do: fakebank.Lagging, Delay: time.Minute, Next: 1, Status: 502})
	require.Equal(t, 502, b.submit("two", "100").status, "its acceptance is lost")
	require.Equal(t, 404, b.status("two").status)
	require.Equal(t, "06", b.submit("two", "100").get("code"))
	require.Len(t, b.Paid(), 2)
}

func TestPayoutScriptAndStatusFaults(t *testing.T) {
	b := setup(t, fakebank.Options{})
	for _, do := range []fakebank.Action{fakebank.Drop, fakebank.Reject, fakebank.Normal, fakebank.DropAfter} {
		b.Faults.Add(fakebank.Rule{On: fakebank.OnPayouts, Do: do, Next: 1})
	}
	require.Error(t, b.submit("one", "1").err)
	require.Equal(t, "06", b.submit("two", "1").get("code"))
	require.Equal(t, "00", b.submit("three", "1").get("code"))
	require.Error(t, b.submit("four", "1").err)
	require.Len(t, b.Paid(), 2)

	b.Faults.Set(
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.NotFound, Next: 1},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.NotFoundCode, Next: 1},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.Empty, Next: 1},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.WrongRecord, Next: 1},
		fakebank.Rule{On: fakebank.OnPayoutStatus, Do: fakebank.AlterStatus, Value: "NEW", Next: 1},
	)
	require.Equal(t, 404, b.status("three").status)
	require.Equal(t, "01", b.status("three").get("code"))
	a := b.status("three")
	require.Equal(t, "00", a.get("code"))
	require.Nil(t, a.get("data"))
	require.NotEqual(t, "three", b.status("three").get("data", "merchantTxRef"))
	require.Equal(t, "NEW", b.status("three").get("data", "status"))
	require.Equal(t, "SUCCESS", b.status("three").get("data", "status"))
}

func TestEndPayoutByHand(t *testing.T) {
	b := setup(t, fakebank.Options{PayoutDelay: time.Hour, TokenTTL: 24 * time.Hour})
	b.submit("one", "10")
	_, err := b.EndPayout("nobody", fakebank.StatusSuccess)
	require.ErrorIs(t, err, fakebank.ErrNoRecord)
	_, err = b.EndPayout("one", fakebank.StatusRefund)
	require.ErrorIs(t, err, fakebank.ErrState)
	_, err = b.EndPayout("one", fakebank.StatusSuccess)
	require.NoError(t, err)
	_, err = b.EndPayout("one", fakebank.StatusRefund)
	require.NoError(t, err)
	b.clock.Advance(2 * time.Hour)
	require.Equal(t, "REFUND", b.status("one").get("data", "status"), "what was scheduled is off")
	require.Equal(t, "0.00", b.Wallet().String())
}
