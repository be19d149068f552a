package statement

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/ledger"
)

// A statement's closing balance is its opening balance and the booked lines; what is under review
// is pending. Payer, texts and references are where ISO 20022 has them.
func TestCamt(t *testing.T) {
	t.Parallel()
	in, review, out, back := line("Owó ilé <&>"), line("looked at"), line("Rent"), line("back")
	in.Entry.SenderAccount, in.Entry.SessionID = "0123456789", strings.Repeat("9", 30)
	review.Entry.Status = ledger.NeedsReview
	ref, of := "AJO00000000000000000000000000000000", uuid.New()
	out.Entry.Direction, out.Entry.Amount, out.Entry.TransferRef, out.Entry.SenderName, out.Entry.SenderAccount = ledger.Debit, money.Must("6000.00"), &ref, "", ""
	back.Entry.Direction, back.Entry.Amount, back.Entry.ReversalOf = ledger.Debit, money.Must("10.00"), &of
	s := sheet(in, review, out, back)
	s.Standing, s.Filter.From = money.Must("7.50"), at
	var b bytes.Buffer
	require.NoError(t, Camt(&b, Made{At: at, Test: true}, s, sheet()))
	var got camtDocument
	require.NoError(t, xml.Unmarshal(b.Bytes(), &got))
	require.Equal(t, "TEST DATA: no money was moved", got.Message.Header.More)
	require.Len(t, got.Message.Statements, 2)
	st := got.Message.Statements[0]
	require.Equal(t, camtAccount{Number: "9012345678", Currency: "NGN", Name: "Ọlábísí Ẹ̀kúndayọ̀", Owner: "Ṣadé & Ọmọ Stores", Bank: "Ajo Bank"}, st.Account)
	require.Equal(t, []camtBalance{
		{"OPBD", camtAmount{"NGN", "7.50"}, "CRDT", "2026-01-31T00:30:00+01:00"}, {"CLBD", camtAmount{"NGN", "1002.50"}, "DBIT", "2026-01-31T00:30:00+01:00"},
	}, st.Balances)
	var states []string
	for _, e := range st.Entries {
		states = append(states, strings.Join([]string{e.Direction, e.Status, e.Family, e.Amount.Value}, " "))
	}
	require.Equal(t, []string{"CRDT BOOK RCDT 5000.00", "CRDT PDNG RCDT 5000.00", "DBIT BOOK ICDT 6000.00", "DBIT BOOK ICDT 10.00"}, states)
	require.True(t, st.Entries[3].Reversal)
	d := st.Entries[0].Details
	require.Equal(t, []string{"Owó ilé <&>", strings.Repeat("9", 30), "GTBank", "Bọ́lá Adé", "0123456789"}, []string{d.Text, d.EndToEnd, d.PayerBank, d.Payer.Name, d.Payer.Account.Number})
	require.Equal(t, ref, st.Entries[2].Details.EndToEnd)
	require.Nil(t, st.Entries[2].Details.Payer)
	text := b.String()
	order := []string{"<MsgId>", "<CreDtTm>", "<AddtlInf>", "<Stmt>", "<ElctrncSeqNb>1<", "<FrToDt>", "<Acct>", "<Bal>", "<Ntry>", "<NtryRef>", "<Sts>", "<BookgDt>", "<BkTxCd>", "<NtryDtls>", "<Refs>", "<RltdPties>", "<RltdAgts>", "<RmtInf>", "<AddtlNtryInf>"}
	at := 0
	for _, name := range order {
		i := strings.Index(text[at:], name)
		require.GreaterOrEqual(t, i, 0, "%s in its place", name)
		at += i
	}
}

// The closing balance of days that have ended is of the last of them, not of the day after:
// programs that keep books take its day for the statement's.
func TestCamtEndsWithItsLastDay(t *testing.T) {
	t.Parallel()
	day := func(d int) time.Time { return time.Date(2026, 1, d, 0, 0, 0, 0, clock.Lagos) }
	late := line("")
	late.Entry.CreatedAt = day(30).Add(-time.Millisecond)
	for name, c := range map[string]struct {
		from, to     time.Time
		begins, ends string
		lines        []ledger.Line
	}{
		"a day":                               {from: day(29), to: day(30), begins: "2026-01-29T00:00:00+01:00", ends: "2026-01-29T23:59:59+01:00"},
		"to an hour":                          {from: day(29), to: day(30).Add(10 * time.Hour), begins: "2026-01-29T00:00:00+01:00", ends: "2026-01-30T09:59:59+01:00"},
		"no time":                             {from: day(29), to: day(29), begins: "2026-01-29T00:00:00+01:00", ends: "2026-01-29T00:00:00+01:00"},
		"has not ended when the file is made": {from: day(29), to: day(60), begins: "2026-01-29T00:00:00+01:00", ends: "2026-01-31T00:30:00+01:00"},
		"without an end":                      {from: day(29), begins: "2026-01-29T00:00:00+01:00", ends: "2026-01-31T00:30:00+01:00"},
		"begins in its last second":           {to: day(30), lines: []ledger.Line{late}, begins: "2026-01-29T23:59:59+01:00", ends: "2026-01-29T23:59:59+01:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sheet(c.lines...)
			s.Filter.From, s.Filter.To = c.from, c.to
			var b bytes.Buffer
			require.NoError(t, Camt(&b, Made{At: at}, s))
			var got camtDocument
			require.NoError(t, xml.Unmarshal(b.Bytes(), &got))
			st := got.Message.Statements[0]
			require.Equal(t, []string{c.begins, c.ends}, []string{st.From, st.To})
			require.Equal(t, []string{c.begins, c.ends}, []string{st.Balances[0].At, st.Balances[1].At})
		})
	}
}

// Whatever somebody writes, the file is XML, and no text is longer than its field.
func TestAnyTextMakesXML(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lines := anyLines(t, "\x00\x1b", "\xff\xfe", "]]>", "\uFFFF", strings.Repeat("ẹ̀", 200))
		for i := range lines {
			lines[i].Entry.SenderName = lines[i].Entry.Narration
		}
		var b bytes.Buffer
		require.NoError(t, Camt(&b, Made{At: at}, sheet(lines...)))
		var got camtDocument
		require.NoError(t, xml.Unmarshal(b.Bytes(), &got))
		require.Empty(t, got.Message.Header.More)
		require.Len(t, got.Message.Statements[0].Entries, len(lines))
		for _, e := range got.Message.Statements[0].Entries {
			require.LessOrEqual(t, len([]rune(e.Details.Text)), 140)
		}
	})
}
