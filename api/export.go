package api

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/account"
	"ajo/internal/clock"
	"ajo/internal/errs"
	"ajo/internal/money"
	"ajo/internal/payment"
	"ajo/internal/statement"
	"ajo/internal/tenant"
	"ajo/internal/transfer"
	"ajo/ledger"
	"ajo/ratelimit"
)

// Largest exported statement, in lines. It keeps the file at a few megabytes and its creation well
// within the deadline.
const (
	maxCSVLines = 50_000
	maxPDFLines = 5_000
)

// How many exports run at once, at most one for each tenant. Others wait, for as long as a request
// may take.
const (
	exportsAtOnce    = 2
	exportsPerTenant = 4 // requests of a tenant, one of which runs
	exportRetry      = 5 // seconds after which a refused request may try again
)

var (
	errBusy        = errs.New(errs.Unavailable, "too many exports are running; try again")
	errManyExports = errs.New(errs.TooMany, "too many exports of this tenant are running")
	// A message without a statement is not valid, so programs that keep books cannot read it.
	errNoStatements = errs.New(errs.Unprocessable, "no account has lines in this period: a camt.053 file needs at least one statement")
)

// statementCSV is GET /auth/accounts/:accountRef/statement.csv, an addition: all lines that match
// the filter.
func (e *edge) statementCSV(c *fiber.Ctx) error {
	return e.export(c, "text/csv; charset=utf-8", "csv", func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (string, error) {
		a, _, lines, err := e.Accounts.Lines(ctx, caller(c).ID, ref, f, maxCSVLines)
		if err != nil {
			return "", err
		}
		return a.AccountRef, statement.CSV(b, lines)
	})
}

// statementPDF is GET /auth/accounts/:accountRef/statement.pdf, an addition: the same lines as a
// PDF.
func (e *edge) statementPDF(c *fiber.Ctx) error {
	return e.export(c, "application/pdf", "pdf", func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (string, error) {
		x, err := e.Accounts.Export(ctx, caller(c).ID, ref, f, maxPDFLines)
		if err != nil {
			return "", err
		}
		return x.AccountRef, statement.PDF(b, x.AccountRef, e.made(), sheetOf(caller(c), f, x))
	})
}

// statementXML is GET /auth/accounts/:accountRef/statement.xml, an addition: the lines of a period
// as camt.053.
func (e *edge) statementXML(c *fiber.Ctx) error {
	return e.export(c, "application/xml", "xml", func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (string, error) {
		f.Direction, f.Status = "", "" // its balances cover all lines
		x, err := e.Accounts.Export(ctx, caller(c).ID, ref, f, maxCSVLines)
		if err != nil {
			return "", err
		}
		return x.AccountRef, statement.Camt(b, e.made(), sheetOf(caller(c), f, x))
	})
}

// allCSV, allPDF and allXML are GET /auth/statement.csv, .pdf and .xml, an addition: the statements
// of all accounts in one file.
func (e *edge) allCSV(c *fiber.Ctx) error {
	return e.exportAll(c, "text/csv; charset=utf-8", "csv", maxCSVLines, func(b *bytes.Buffer, sheets []statement.Sheet) error {
		return statement.AllCSV(b, sheets)
	})
}

func (e *edge) allPDF(c *fiber.Ctx) error {
	return e.exportAll(c, "application/pdf", "pdf", maxPDFLines, func(b *bytes.Buffer, sheets []statement.Sheet) error {
		return statement.PDF(b, caller(c).Name, e.made(), sheets...)
	})
}

func (e *edge) allXML(c *fiber.Ctx) error {
	return e.exportAll(c, "application/xml", "xml", maxCSVLines, func(b *bytes.Buffer, sheets []statement.Sheet) error {
		if len(sheets) == 0 {
			return errNoStatements
		}
		return statement.Camt(b, e.made(), sheets...)
	})
}

func (e *edge) exportAll(c *fiber.Ctx, media, ending string, limit int, write func(*bytes.Buffer, []statement.Sheet) error) error {
	f, err := statementFilter(c)
	if err != nil {
		return err
	}
	if ending == "xml" {
		f.Direction, f.Status = "", ""
	}
	return e.sendFile(c, media, ending, f.To, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		t := caller(c)
		list, without, err := e.Accounts.Exports(ctx, t.ID, f, limit)
		if err != nil {
			return "", err
		}
		var sheets []statement.Sheet
		for _, x := range list {
			sheets = append(sheets, sheetOf(t, f, x))
		}
		if len(sheets) == 0 && ending == "pdf" {
			sheets = []statement.Sheet{{Tenant: t.Name, Filter: f}}
		}
		if n := len(sheets); n > 0 {
			sheets[n-1].LeftOut, sheets[n-1].LeftBalance = without.Accounts, without.Balance
		}
		return "statements", write(b, sheets)
	})
}

func sheetOf(t tenant.Tenant, f ledger.Filter, x account.Export) statement.Sheet {
	return statement.Sheet{
		Tenant: t.Name, Holder: x.BankAccountName, Number: x.BankAccountNumber, Bank: x.BankName, Ref: x.AccountRef,
		Filter: f, Opening: x.Opening, Closing: x.Closing, Standing: x.Standing, Lines: x.Lines,
	}
}

// Refusals of a receipt for a payment or payout that is not final.
var (
	errUnconfirmed = errs.New(errs.Unprocessable, "the payment is not confirmed")
	errRecalled    = errs.New(errs.Unprocessable, "the bank may have taken the payment back")
	errUnpaid      = errs.New(errs.Unprocessable, "the transfer has not succeeded")
	errDiffers     = errs.New(errs.Unprocessable, "the bank's record of the transfer says otherwise")
)

// paymentReceipt is GET /auth/payments/:id/receipt.pdf, an addition: for a confirmed payment that
// nobody says was taken back.
func (e *edge) paymentReceipt(c *fiber.Ctx) error {
	return e.sendFile(c, "application/pdf", "pdf", time.Time{}, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		p, err := e.Payments.Timeline(ctx, caller(c).ID, pathID(c))
		switch {
		case err != nil:
			return "", err
		case p.Status != ledger.Confirmed:
			return "", errUnconfirmed
		case p.Recalled():
			return "", errRecalled
		}
		return "receipt-" + p.ID.String(), statement.ReceiptPDF(b, statement.PaymentReceipt(caller(c).Name, p.Payment, goneBack(p), e.made()))
	})
}

func goneBack(p payment.Timeline) statement.GoneBack {
	back := statement.GoneBack{Refunded: p.Refunded, UnderWay: p.BeingRefunded}
	if p.Held != nil && p.Held.Source == ledger.HeldForRefund {
		back.Held = p.Held.Amount
	}
	return back
}

// transferReceipt is GET /auth/transfers/:merchantTxRef/receipt.pdf, an addition: for a payout that
// the bank has made, by its newest record.
func (e *edge) transferReceipt(c *fiber.Ctx) error {
	return e.sendFile(c, "application/pdf", "pdf", time.Time{}, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		t, err := e.Transfers.Get(ctx, caller(c).ID, pathParam(c, "merchantTxRef"))
		switch {
		case err != nil:
			return "", err
		case t.Status != transfer.Success:
			return "", errUnpaid
		case t.Differs:
			return "", errDiffers
		}
		return "receipt-" + t.MerchantTxRef, statement.ReceiptPDF(b, payoutReceipt(caller(c).Name, t, e.made()))
	})
}

func payoutReceipt(from string, t transfer.Transfer, made statement.Made) statement.Receipt {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	sum := func(a *money.Amount) string {
		if a == nil || !a.IsPositive() {
			return ""
		}
		return "₦ " + a.Grouped()
	}
	ordered := ""
	if t.OrderedAt != nil {
		ordered = t.OrderedAt.In(clock.Lagos).Format("2 Jan 2006 15:04")
	}
	amount := t.Amount
	if t.PaidAmount != nil {
		amount = *t.PaidAmount
	}
	return statement.Receipt{Title: "Receipt of a payout", Tenant: from, Ref: t.MerchantTxRef, Amount: amount, Made: made, Facts: [][2]string{
		{"Paid by", from},
		{"From account", t.AccountRef},
		{"To", text(t.AccountName)},
		{"To account number", t.AccountNumber},
		{"Bank", strings.TrimSpace(text(t.BankName) + " " + t.BankCode)},
		{"Narration", t.Narration},
		{"Bank's fee", sum(t.ProviderFee)},
		{"VAT", sum(t.VAT)},
		{"Stamp duty", sum(t.StampDuty)},
		{"Ordered", ordered},
		{"State", "Paid"},
		{"Reference", t.MerchantTxRef},
	}}
}

// made returns what files say about themselves: when they were made, and whether in test mode.
func (e *edge) made() statement.Made {
	return statement.Made{At: e.Clock.Now(), Test: e.Sandbox != nil}
}

// export sends a statement.
func (e *edge) export(c *fiber.Ctx, media, ending string, write func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (name string, err error)) error {
	f, err := statementFilter(c)
	if err != nil {
		return err
	}
	return e.sendFile(c, media, ending, f.To, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		name, err := write(ctx, b, pathParam(c, accountRef), f)
		return "statement-" + name, err
	})
}

// sendFile sends a complete file, so that an error is answered as one and not as half a file. to is
// the end of the file's period; zero: it has none. If the period ends while the file is made, the
// file may lack its last entries, although it is dated after the end: it is refused. If it has
// ended before, [ledger.AwaitEnd] sees to that.
func (e *edge) sendFile(c *fiber.Ctx, media, ending string, to time.Time, write func(ctx context.Context, b *bytes.Buffer) (name string, err error)) error {
	ctx := c.UserContext()
	leave, err := e.exportPlaces.enter(ctx, caller(c).ID)
	switch {
	case errors.Is(err, errManyExports):
		return e.limit(c, ratelimit.Result{Limit: exportsPerTenant, Reset: exportRetry})
	case err != nil:
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(exportRetry))
		return err
	}
	defer leave()
	lasts := to.After(e.Clock.Now())
	var b bytes.Buffer
	name, err := write(ctx, &b)
	if err == nil {
		err = e.stands(ctx, c)
	}
	if made := e.Clock.Now(); err == nil && lasts && !to.After(made) {
		err = ledger.ErrPosting
	}
	if errors.Is(err, ledger.ErrPosting) {
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(exportRetry))
	}
	if err != nil {
		return err
	}
	if e.Sandbox != nil {
		name = "test-" + name
	}
	c.Set(fiber.HeaderContentType, media)
	c.Set(fiber.HeaderContentDisposition, attachment(name, e.Clock.Now(), ending))
	return c.Send(b.Bytes())
}

// attachment is a Content-Disposition with a file name made of a name and the day.
func attachment(what string, at time.Time, ending string) string {
	safe := []rune(what)
	for i, r := range safe {
		if !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' || r == '_') {
			safe[i] = '-'
		}
	}
	name := string(safe[:min(len(safe), 90)]) + "-" + at.In(clock.Lagos).Format(time.DateOnly) + "." + ending
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}
