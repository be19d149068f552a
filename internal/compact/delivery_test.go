package compact

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var group = uuid.MustParse("01890a5d-ac96-774b-bcce-b302099a8057")

// Rows of years back are read by these forms: a case is added, and none is ever changed.
func TestDeliveryForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ event, stored, body string }{
		{
			"payment.received", "1customer-1\n4990.00\n5000.00\n10.00\nBola <Ade> & Sons\nRent \\\"May\\\"\\u0000",
			`{"eventType":"payment.received","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","accountRef":"customer-1","amount":"4990.00",` +
				`"gross_amount":"5000.00","provider_fee":"10.00","currency":"NGN","senderName":"Bola <Ade> & Sons","narration":"Rent \"May\"\u0000","status":"provisional"}`,
		},
		{
			"payment.confirmed", "1\n1.00\n1.00\n0.00\n\n",
			`{"eventType":"payment.confirmed","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","accountRef":"","amount":"1.00",` +
				`"gross_amount":"1.00","provider_fee":"0.00","currency":"NGN","senderName":"","narration":"","status":"confirmed"}`,
		},
		{
			"payment.reversed", "1a\n1.00\n1.00\n0.00\n\\\",\\\"amount\\\":\\\"9.00\\\"\n",
			`{"eventType":"payment.reversed","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","accountRef":"a","amount":"1.00",` +
				`"gross_amount":"1.00","provider_fee":"0.00","currency":"NGN","senderName":"\",\"amount\":\"9.00\"","narration":"","status":"reversed"}`,
		},
		{
			"settlement.succeeded", "2AJO1\nshop\n99.50\n058\n0123456789",
			`{"eventType":"settlement.succeeded","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","merchantTxRef":"AJO1","accountRef":"shop",` +
				`"amount":"99.50","currency":"NGN","bankCode":"058","accountNumber":"0123456789","status":"success"}`,
		},
		{
			"settlement.refunded", "2AJO1\nshop\n99.50\n058\n0123456789",
			`{"eventType":"settlement.refunded","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","merchantTxRef":"AJO1","accountRef":"shop",` +
				`"amount":"99.50","currency":"NGN","bankCode":"058","accountNumber":"0123456789","status":"refunded"}`,
		},
	} {
		require.Equal(t, c.stored, string(Delivery(c.event, group, []byte(c.body))))
		body, err := FullDelivery(c.event, group, []byte(c.stored))
		require.NoError(t, err)
		require.Equal(t, c.body, string(body))
	}
}

// What a form does not give back is stored as it is: another group, another type, a field more.
func TestDeliveryOfNoForm(t *testing.T) {
	t.Parallel()
	body := `{"eventType":"payment.received","transactionGroupId":"01890a5d-ac96-774b-bcce-b302099a8057","accountRef":"a","amount":"1.00",` +
		`"gross_amount":"1.00","provider_fee":"0.00","currency":"NGN","senderName":"","narration":"","status":"provisional"}`
	for _, c := range []struct{ event, body string }{
		{"payment.received", strings.Replace(body, "01890a5d", "01890a5e", 1)},
		{"payment.confirmed", body},
		{"settlement.failed", body},
		{"account.opened", body},
		{"payment.received", strings.Replace(body, `"}`, `","policy":"hold"}`, 1)},
		{"payment.received", strings.Replace(body, "NGN", "USD", 1)},
		{"payment.received", strings.Replace(body, `"a"`, "\"a\nb\"", 1)},
		{"payment.received", body + " "},
		{"payment.received", "{}"},
		{"payment.received", ""},
	} {
		require.Equal(t, c.body, string(Delivery(c.event, group, []byte(c.body))))
		back, err := FullDelivery(c.event, group, []byte(c.body))
		require.NoError(t, err)
		require.Equal(t, c.body, string(back))
	}
}

// A form of a later release, and damage, are no body: nothing is sent.
func TestFullDeliveryRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"3a\nb", "1a\nb", "1a\n1\n1\n1\nb\nc\nd", "\xff\x00", "2"} {
		_, err := FullDelivery("payment.received", group, []byte(stored))
		require.Error(t, err, "%q", stored)
	}
}

func TestAnyDeliveryComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		event := rapid.SampledFrom([]string{"payment.received", "settlement.failed", "x"}).Draw(t, "event")
		value := rapid.SampledFrom([]string{"a", "\n", `"`, `\"`, `","amount":"`, `","accountRef":"`, `","currency":"NGN","bankCode":"`, "}", "1", ""})
		body := "{"
		for _, v := range rapid.SliceOfN(value, 0, 12).Draw(t, "values") {
			body += v
		}
		if rapid.Bool().Draw(t, "whole") {
			f := forms[map[bool]byte{true: '2', false: '1'}[event == "settlement.failed"]]
			body = f.before(event, group) + strings.Join(rapid.SliceOfN(value, len(f.between)+1, len(f.between)+1).Draw(t, "of the form"), f.between[0]) + f.behind(event)
		}
		back, err := FullDelivery(event, group, Delivery(event, group, []byte(body)))
		if err != nil || string(back) != body {
			t.Fatalf("%q came back as %q: %v", body, back, err)
		}
	})
}
