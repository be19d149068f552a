// Package statement writes an account's statement as a file for people: CSV for their spreadsheet,
// PDF for their records.
//
// What always holds: amounts stand as the ledger has them; times are Lagos' (UTC+1); and a text
// that somebody else wrote is nothing but a text, in the spreadsheet that opens the file too.
package statement

import (
	"encoding/csv"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"ajo/internal/clock"
	"ajo/ledger"
)

// columns are the first line of the CSV.
var columns = []string{
	"time", "direction", "amount", "fee", "currency", "status", "narration", "providerTxnRef", "transferRef", "runningBalance",
	"entryId", "transactionGroupId", "reversalOf", "senderName", "senderBank", "senderAccount", "senderBankCode", "sessionId", "kind",
}

// bom tells Excel that the file is UTF-8; without it a name such as Ọlá is spoilt there.
const bom = "\uFEFF"

// CSV writes the lines as RFC 4180 has it, in UTF-8 with a byte order mark, under a line of names.
// It stops at the first error of lines or w, and returns it.
func CSV(w io.Writer, lines iter.Seq2[ledger.Line, error]) error {
	if _, err := io.WriteString(w, bom); err != nil {
		return err
	}
	out := csv.NewWriter(w)
	out.UseCRLF = true
	if err := out.Write(columns); err != nil {
		return err
	}
	for l, err := range lines {
		if err != nil {
			return err
		}
		e := l.Entry
		transfer, reversal := "", ""
		if e.TransferRef != nil {
			transfer = *e.TransferRef
		}
		if e.ReversalOf != nil {
			reversal = e.ReversalOf.String()
		}
		err := out.Write([]string{
			e.CreatedAt.In(clock.Lagos).Format(time.RFC3339), string(e.Direction), e.Amount.String(), e.Fee.String(), e.Currency, string(e.Status),
			harmless(e.Narration), harmless(e.ProviderTxnRef), transfer, l.RunningBalance.String(), e.ID.String(), e.TransactionGroupID.String(), reversal,
			harmless(e.SenderName), harmless(e.SenderBank), harmless(e.SenderAccount), harmless(e.SenderBankCode), harmless(e.SessionID), string(e.Kind),
		})
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// harmless makes a payer's words a text to a spreadsheet, which takes a cell that begins with =, +,
// - or @ (their wide forms and a control character before them too) for a formula to run: an
// apostrophe goes before it.
func harmless(s string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " \u00A0\u3000\uFEFF\u200B"))
	if strings.ContainsRune("=+-@＝＋－＠", first) || (s != "" && first < ' ') {
		return "'" + s
	}
	return s
}
