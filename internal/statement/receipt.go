package statement

import (
	"io"

	"codeberg.org/go-pdf/fpdf"

	"ajo/internal/money"
	"ajo/ledger"
)

// Receipt is a document of one payment or one payout that is final by the bank's word. What has no
// value is left out.
type Receipt struct {
	Title, Tenant, Ref string
	Amount             money.Amount
	Facts              [][2]string
	Made               Made
}

// GoneBack is what a payment's sender has got back of it, what is on its way there, and what is
// held to follow.
type GoneBack struct {
	Refunded, UnderWay, Held money.Amount
}

// PaymentReceipt is that of a payment that is confirmed.
func PaymentReceipt(tenant string, p ledger.Payment, back GoneBack, made Made) Receipt {
	number, confirmed := "", ""
	if p.AccountNumber != nil {
		number = *p.AccountNumber
	}
	if p.ConfirmedAt != nil {
		confirmed = day(*p.ConfirmedAt) + " " + hour(*p.ConfirmedAt)
	}
	some := func(a money.Amount) string {
		if !a.IsPositive() {
			return ""
		}
		return naira(a)
	}
	net := ""
	if p.Fee.IsPositive() {
		net = naira(p.Amount)
	}
	return Receipt{Title: "Receipt of a payment", Tenant: tenant, Ref: p.ID.String(), Amount: p.GrossAmount, Made: made, Facts: [][2]string{
		{"Received by", tenant},
		{"From", p.SenderName},
		{"Payer's account", p.SenderAccount},
		{"Payer's bank", p.SenderBank},
		{"For", p.CustomerName},
		{"Account", number},
		{"Account reference", p.AccountRef},
		{"Bank's fee", some(p.Fee)},
		{"Credited", net},
		{"Refunded", some(back.Refunded)},
		{"Being refunded", some(back.UnderWay)},
		{"To be refunded", some(back.Held)},
		{"Narration", p.Narration},
		{"Received", day(p.CreatedAt) + " " + hour(p.CreatedAt)},
		{"Confirmed", confirmed},
		{"Bank's reference", p.ProviderTxnRef},
		{"Session ID", p.SessionID},
		{"Payment ID", p.ID.String()},
	}}
}

const (
	receiptLabel = 48
	receiptLine  = 6
)

// ReceiptPDF writes a receipt as a page. Its only errors are those of w and of the library.
func ReceiptPDF(w io.Writer, r Receipt) error {
	pdf := newPDF("P", r.Title+" "+r.Ref, r.Ref, r.Made)
	pdf.AddPage()
	pdf.SetFont(family, "", 10)
	pdf.CellFormat(0, receiptLine, plain(r.Tenant), "", 1, "L", false, 0, "")
	pdf.SetFont(family, "B", 16)
	pdf.CellFormat(0, 10, r.Title, "", 1, "L", false, 0, "")
	pdf.SetFont(family, "B", 22)
	pdf.CellFormat(0, 14, naira(r.Amount), "", 1, "L", false, 0, "")
	pdf.Ln(2)
	for _, f := range r.Facts {
		if text := plain(f[1]); text != "" {
			r.fact(pdf, f[0], text)
		}
	}
	pdf.Ln(2)
	pdf.SetFont(family, "", 8)
	pdf.MultiCell(0, lineHeight, "Times are West Africa Time. This is what was known on "+day(r.Made.At)+" "+hour(r.Made.At)+". A bank may take money back later.", "", "L", false)
	return pdf.Output(w)
}

// fact writes a name and its value on as many lines as that needs, with a rule below.
func (r Receipt) fact(pdf *fpdf.Fpdf, name, text string) {
	pdf.SetFont(family, "B", 10)
	pdf.CellFormat(receiptLabel, receiptLine, name, "", 0, "L", false, 0, "")
	pdf.SetFont(family, "", 10)
	pdf.SetLeftMargin(margin + receiptLabel)
	for _, part := range splitWithin(pdf, text, 210-2*margin-receiptLabel-2) {
		pdf.CellFormat(0, receiptLine, part, "", 1, "L", false, 0, "")
	}
	pdf.SetLeftMargin(margin)
	pdf.SetX(margin)
	pdf.SetDrawColor(220, 220, 220)
	pdf.Line(margin, pdf.GetY(), 210-margin, pdf.GetY())
}
