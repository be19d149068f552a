// Package statement writes files for people, of an account's statement above all: CSV for their
// spreadsheet, PDF for their records.
//
// What always holds: amounts stand as the ledger has them; times are Lagos' (UTC+1); and a text
// that somebody else wrote is nothing but a text, in the spreadsheet that opens the file too.
package statement

import (
	"encoding/csv"
	"io"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"ajo/internal/audit"
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
	out, err := beginCSV(w, columns)
	if err != nil {
		return err
	}
	for l, err := range lines {
		if err == nil {
			err = out.Write(cells(l))
		}
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// AllCSV writes the lines of the sheets, account by account, in the form of [CSV] with two columns
// more, which say of which account a line is.
func AllCSV(w io.Writer, sheets []Sheet) error {
	out, err := beginCSV(w, append(slices.Clone(columns), "accountRef", "accountNumber"))
	if err != nil {
		return err
	}
	for _, s := range sheets {
		for _, l := range s.Lines {
			if err := out.Write(append(cells(l), harmless(s.Ref), s.Number)); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// AuditCSV writes lines of a tenant's audit log, in the form of [CSV]. Each text begins with a
// letter, a digit, a quote or a bracket: no spreadsheet takes one for a formula.
func AuditCSV(w io.Writer, lines []audit.Line) error {
	out, err := beginCSV(w, []string{"time", "actor", "action", "target", "address", "before", "after", "id"})
	if err != nil {
		return err
	}
	for _, l := range lines {
		address := ""
		if l.Address != nil {
			address = l.Address.String()
		}
		_ = out.Write([]string{inLagos(l.At), l.Actor, l.Action, l.Target, address, string(l.Before), string(l.After), l.ID.String()})
	}
	out.Flush()
	return out.Error()
}

// beginCSV writes a file's first line, of names.
func beginCSV(w io.Writer, names []string) (*csv.Writer, error) {
	if _, err := io.WriteString(w, bom); err != nil {
		return nil, err
	}
	out := csv.NewWriter(w)
	out.UseCRLF = true
	return out, out.Write(names)
}

// cells are a line's values, by columns.
func cells(l ledger.Line) []string {
	e := l.Entry
	transfer, reversal := "", ""
	if e.TransferRef != nil {
		transfer = *e.TransferRef
	}
	if e.ReversalOf != nil {
		reversal = e.ReversalOf.String()
	}
	return []string{
		inLagos(e.CreatedAt), string(e.Direction), e.Amount.String(), e.Fee.String(), e.Currency, string(e.Status),
		harmless(e.Narration), harmless(e.ProviderTxnRef), transfer, l.RunningBalance.String(), e.ID.String(), e.TransactionGroupID.String(), reversal,
		harmless(e.SenderName), harmless(e.SenderBank), harmless(e.SenderAccount), harmless(e.SenderBankCode), harmless(e.SessionID), string(e.Kind),
	}
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
