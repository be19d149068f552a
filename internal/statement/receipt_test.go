package statement

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/money"
	"ajo/ledger"
)

// A receipt says who paid what to whom, and leaves out what is not known.
func TestReceipt(t *testing.T) {
	t.Parallel()
	number, confirmed := "9012345678", at
	p := ledger.Payment{
		ID: uuid.MustParse("0190c0de-0000-7000-8000-000000000001"), GrossAmount: money.Must("12000.50"), Fee: money.Must("50.00"), Amount: money.Must("11950.50"),
		SenderName: "Ọlábísí " + strings.Repeat("of a long name ", 20), SenderAccount: "0123456789", SenderBank: "GTBank", Narration: "", ProviderTxnRef: "API-VACT_TRA-1",
		CreatedAt: at, ConfirmedAt: &confirmed, AccountRef: "customer-1", AccountNumber: &number, CustomerName: "Ada Obi",
	}
	var b bytes.Buffer
	require.NoError(t, ReceiptPDF(&b, PaymentReceipt("Ṣadé & Ọmọ Stores", p, GoneBack{money.Must("1000.00"), money.Must("0.25"), money.Must("33.50")}, Made{At: at})))
	pages := textOf(t, b)
	require.Len(t, pages, 1)
	for _, want := range []string{"Receipt of a payment", "₦ 12,000.50", "Ọlábísí of a long name", "0123456789", "Bank's fee", "₦ 50.00", "₦ 11,950.50", "Refunded", "₦ 1,000.00", "Being refunded", "₦ 0.25", "To be refunded", "₦ 33.50", "Confirmed", p.ID.String(), "page 1 of 1"} {
		require.Contains(t, pages[0], want)
	}
	require.NotContains(t, pages[0], "Narration")
	require.NotContains(t, pages[0], "Session ID")
	p.Fee, p.SenderBank = money.Zero, ""
	b.Reset()
	require.NoError(t, ReceiptPDF(&b, PaymentReceipt("Ada Stores", p, GoneBack{}, Made{At: at, Test: true})))
	last := textOf(t, b)[0]
	require.Contains(t, last, testData)
	require.NotContains(t, pages[0], testData)
	for _, not := range []string{"Bank's fee", "efunded"} {
		require.NotContains(t, last, not)
	}
}
