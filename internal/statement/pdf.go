package statement

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"codeberg.org/go-fonts/dejavu/dejavusanscondensed"
	"codeberg.org/go-fonts/dejavu/dejavusanscondensedbold"
	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/text/unicode/norm"

	"ajo/internal/clock"
	"ajo/internal/money"
	"ajo/ledger"
)

// Sheet is what a PDF shows.
type Sheet struct {
	Tenant, Holder, Number, Bank, Ref string
	Filter                            ledger.Filter
	Opening                           money.Amount // at the beginning of the filter's time
	Closing                           money.Amount // at its end
	Standing                          money.Amount // the same by what is known now, for Camt
	Lines                             []ledger.Line
	// the last sheet of a file of all accounts: how many it leaves out, as they have no lines, and
	// their balance at the end of the filter's time
	LeftOut     int
	LeftBalance money.Amount
}

// Made is when a file is made, and whether of the data of test mode: the file then says so, lest
// somebody takes it for money.
type Made struct {
	At   time.Time
	Test bool
}

// testData is what the files of test mode say.
const testData = "TEST DATA: no money was moved"

// The page, in millimetres: A4 across.
const (
	margin     = 12
	lineHeight = 4
	lastLine   = 192 // a row that would reach further goes to the next page
)

// family is DejaVu, which has the letters of Yoruba, Igbo and Hausa with their marks, and the sign
// of the naira. It is free to embed.
const family = "dejavu"

type column struct {
	title string
	width float64
	align string
}

var table = []column{
	{"Date", 29, "L"},
	{"Description", 77, "L"},
	{"Reference", 56, "L"},
	{"Fee (₦)", 20, "R"},
	{"Money in (₦)", 30, "R"},
	{"Money out (₦)", 30, "R"},
	{"Balance (₦)", 31, "R"},
}

// PDF writes the sheets as pages with a heading, a table and page numbers, each from a new page on.
// name is what they are of. Its only errors are those of w and of the library.
func PDF(w io.Writer, name string, made Made, sheets ...Sheet) error {
	pdf := newPDF("L", "Statement of "+name, name, made)
	for _, s := range sheets {
		pdf.AddPage()
		s.heading(pdf, made.At)
		head(pdf)
		for _, l := range s.Lines {
			row(pdf, l)
		}
		if len(s.Lines) == 0 {
			pdf.CellFormat(0, 2*lineHeight, "No entries.", "", 1, "L", false, 0, "")
		}
	}
	return pdf.Output(w)
}

// newPDF is an empty document with its fonts, and a foot on each page that says what it is of and
// when it was made. Where it is of test data, the head of each page and its title say that too.
func newPDF(orientation, title, name string, made Made) *fpdf.Fpdf {
	pdf := fpdf.New(orientation, "mm", "A4", "")
	pdf.SetCatalogSort(true)
	pdf.SetCreationDate(made.At)
	pdf.SetModificationDate(made.At)
	if made.Test {
		title = testData + ". " + title
		pdf.SetHeaderFunc(func() {
			pdf.SetXY(margin, margin/3)
			pdf.SetFont(family, "B", 12)
			pdf.CellFormat(0, margin/2, testData, "", 0, "C", false, 0, "")
			pdf.SetXY(margin, margin)
		})
	}
	pdf.SetTitle(plain(title), true)
	pdf.SetCreator("Ajo", true)
	pdf.SetLang("en-NG")
	pdf.SetMargins(margin, margin, margin)
	pdf.SetAutoPageBreak(false, margin)
	pdf.AliasNbPages("")
	pdf.AddUTF8FontFromBytes(family, "", dejavusanscondensed.TTF)
	pdf.AddUTF8FontFromBytes(family, "B", dejavusanscondensedbold.TTF)
	pdf.SetFooterFunc(func() {
		pdf.SetXY(margin, -margin)
		pdf.SetFont(family, "", 7)
		pdf.CellFormat(0, lineHeight, fmt.Sprintf("%s · made %s · page %d of {nb}", plain(name), day(made.At)+" "+hour(made.At), pdf.PageNo()), "", 0, "R", false, 0, "")
	})
	return pdf
}

// heading says whose statement it is, of what time, and what it comes to.
func (s Sheet) heading(pdf *fpdf.Fpdf, made time.Time) {
	pdf.SetFont(family, "B", 14)
	pdf.CellFormat(0, 8, "Account statement", "", 1, "L", false, 0, "")
	in, out := s.totals()
	facts := [][2]string{
		{"Tenant", s.Tenant},
		{"Account", fmt.Sprintf("%s (%s)", s.Holder, s.Ref)},
		{"Number", strings.TrimSpace(s.Number + " " + s.Bank)},
		{"Period", period(s.Filter, made)},
		{"Entries", fmt.Sprint(len(s.Lines))},
	}
	if s.Ref == "" { // of all accounts, none of which has any
		facts = slices.Delete(facts, 1, 3)
	}
	if only := s.only(); only != "" {
		facts = append(facts, [2]string{"Only", only})
	} else if s.Ref != "" {
		facts = append(facts, [2]string{"Opening balance", naira(s.Opening)}, [2]string{"Closing balance", naira(s.Closing)})
	}
	facts = append(facts, [2]string{"Money in", naira(in)}, [2]string{"Money out", naira(out)})
	byReviews := s.Closing.Sub(s.Opening).Sub(in).Add(out)
	if s.only() != "" { // no balances, and not all lines
		byReviews = money.Zero
	}
	if byReviews.Sign() != 0 {
		facts = append(facts, [2]string{"By reviews", naira(byReviews)})
	}
	if text := s.leftOut(); text != "" {
		facts = append(facts, [2]string{"Left out", text})
	}
	for _, f := range facts {
		pdf.SetFont(family, "B", 8)
		pdf.CellFormat(32, lineHeight+0.5, f[0], "", 0, "L", false, 0, "")
		pdf.SetFont(family, "", 8)
		pdf.MultiCell(0, lineHeight+0.5, plain(f[1]), "", "L", false)
	}
	pdf.SetFont(family, "", 7)
	pdf.Ln(1)
	pdf.MultiCell(0, lineHeight, "Times are West Africa Time. A balance is that right after its entry was posted. An entry under review is listed and in no total; "+
		"a reversed entry and its reversal are in one total each. A fee is the bank's, taken before the money came in.", "", "L", false)
	if byReviews.Sign() != 0 {
		pdf.MultiCell(0, lineHeight, "What is by reviews has no line: a review takes an entry out of the balance, or puts it back.", "", "L", false)
	}
	pdf.Ln(2)
}

// leftOut says which of all accounts have no sheet; empty: there are none, or it is not the last.
func (s Sheet) leftOut() string {
	accounts := fmt.Sprint(s.LeftOut, " accounts without ")
	if s.LeftOut == 1 {
		accounts = "1 account without "
	}
	switch {
	case s.LeftOut == 0:
		return ""
	case s.only() != "":
		return accounts + "such entries"
	}
	return accounts + "entries in the period, with a balance of " + naira(s.LeftBalance)
}

// totals are those of the lines.
func (s Sheet) totals() (in, out money.Amount) {
	for _, l := range s.Lines {
		switch {
		case l.Entry.Status == ledger.NeedsReview:
		case l.Entry.Direction == ledger.Credit:
			in = in.Add(l.Entry.Amount)
		default:
			out = out.Add(l.Entry.Amount)
		}
	}
	return in, out
}

// only names what the filter leaves, but for the time; "" when it leaves all.
func (s Sheet) only() string {
	direction := map[ledger.Direction]string{ledger.Credit: "money in", ledger.Debit: "money out"}[s.Filter.Direction]
	return strings.Trim(direction+", "+strings.ReplaceAll(string(s.Filter.Status), "_", " "), ", ")
}

func head(pdf *fpdf.Fpdf) {
	pdf.SetFont(family, "B", 7.5)
	pdf.SetFillColor(235, 235, 235)
	for _, c := range table {
		pdf.CellFormat(c.width, lineHeight+2, c.title, "", 0, c.align, true, 0, "")
	}
	pdf.Ln(lineHeight + 3)
	pdf.SetFont(family, "", 7.5)
}

// row writes a line, with its long texts on several; on the next page when this one has no room for
// it.
func row(pdf *fpdf.Fpdf, l ledger.Line) {
	e := l.Entry
	description, reference := describe(e), plain(e.ProviderTxnRef)
	if e.TransferRef != nil {
		reference = *e.TransferRef
	}
	fee := ""
	if e.Fee.IsPositive() {
		fee = e.Fee.Grouped()
	}
	in, out := "", e.Amount.Grouped()
	if e.Direction == ledger.Credit {
		in, out = out, in
	}
	cells := [][]string{{day(e.CreatedAt) + " " + hour(e.CreatedAt)}, withStatus(pdf, split(pdf, description, 1), e.Status), split(pdf, reference, 2), {fee}, {in}, {out}, {l.RunningBalance.Grouped()}}
	lines := 1
	for _, c := range cells {
		lines = max(lines, len(c))
	}
	x, y := pdf.GetXY()
	if int(y)+lines*lineHeight > lastLine {
		pdf.AddPage()
		head(pdf)
		x, y = pdf.GetXY()
	}
	for i, c := range cells {
		pdf.SetXY(x, y)
		for _, text := range c {
			pdf.CellFormat(table[i].width, lineHeight, text, "", 2, table[i].align, false, 0, "")
		}
		x += table[i].width
	}
	bottom := y + float64(lines*lineHeight) + 0.5
	pdf.SetDrawColor(220, 220, 220)
	pdf.Line(margin, bottom, x, bottom)
	pdf.SetXY(margin, bottom+0.5)
}

// describe is who paid and why.
func describe(e ledger.Entry) string {
	var parts []string
	for _, part := range []string{strings.Join(strings.Fields(plain(e.SenderName)+" "+inBrackets(plain(e.SenderBank))), " "), plain(e.Narration)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " · ")
}

// withStatus adds an entry's status, unless it is the common one, to the lines of its description:
// behind the last, or below it where there is no room. A long text is cut, and the status never.
func withStatus(pdf *fpdf.Fpdf, lines []string, s ledger.Status) []string {
	if s == ledger.Confirmed {
		return lines
	}
	status, last := inBrackets(strings.ReplaceAll(string(s), "_", " ")), len(lines)-1
	if longer := strings.TrimSpace(lines[last] + " " + status); pdf.GetStringWidth(longer) <= table[1].width-2 {
		lines[last] = longer
		return lines
	}
	return append(lines, status)
}

func inBrackets(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// maxParts is how many lines a text takes in a row at most; what is longer ends in an ellipsis.
const maxParts = 6

// split breaks a text for its column, between words and, where one is too long, within it. The
// library's own SplitText takes the mark of an Ọ̀ for a letter of boundless width.
func split(pdf *fpdf.Fpdf, text string, column int) []string {
	return splitWithin(pdf, text, table[column].width-2)
}

func splitWithin(pdf *fpdf.Fpdf, text string, width float64) (parts []string) {
	fits := func(s string) bool { return pdf.GetStringWidth(s) <= width }
	part := ""
	for _, word := range strings.Fields(text) {
		if longer := strings.TrimSpace(part + " " + word); fits(longer) {
			part = longer
			continue
		}
		if part != "" {
			parts, part = append(parts, part), ""
		}
		for _, r := range word {
			if !fits(part+string(r)) && !unicode.Is(unicode.Mn, r) {
				parts, part = append(parts, part), ""
			}
			part += string(r)
		}
	}
	if parts = append(parts, part); len(parts) > maxParts {
		parts = append(parts[:maxParts-1], parts[maxParts-1]+"…")
	}
	return parts
}

// plain is a text as the page can show it: composed, without control and format characters, and
// without what lies beyond the library's 65,536 characters.
func plain(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r > 0xFFFF, r == unicode.ReplacementChar, unicode.Is(unicode.Co, r):
			return unicode.ReplacementChar
		case unicode.IsControl(r), unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, norm.NFC.String(s)))
}

// period names a filter's time. One that has not ended when the file is made ends there.
func period(f ledger.Filter, made time.Time) string {
	from, to := "the first entry", "today, "+moment(made)
	if !f.From.IsZero() {
		from = moment(f.From)
	}
	if !f.To.IsZero() && !f.To.After(made) {
		to = "before " + moment(f.To)
		if end := f.To.In(clock.Lagos); end.Equal(midnight(end)) {
			to = day(end.Add(-time.Second)) // the end of a day is named by the day
		}
	}
	return from + " to " + to
}

func moment(t time.Time) string {
	if l := t.In(clock.Lagos); l.Equal(midnight(l)) {
		return day(t)
	}
	return day(t) + " " + hour(t)
}

func midnight(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
}

func day(t time.Time) string { return t.In(clock.Lagos).Format("2 Jan 2006") }

func hour(t time.Time) string { return t.In(clock.Lagos).Format("15:04") }

func naira(a money.Amount) string { return "₦ " + a.Grouped() }
