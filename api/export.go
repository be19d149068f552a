package api

import (
	"bytes"
	"context"
	"errors"
	"mime"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/errs"
	"ajo/internal/statement"
	"ajo/ledger"
	"ajo/ratelimit"
)

// The most lines of an exported statement: what is made at once stays a few megabytes, and ends
// well before the deadline.
const (
	maxCSVLines = 50_000
	maxPDFLines = 5_000
)

// How many are made at once, one for each tenant; others wait for their turn, as long as a request
// may take.
const (
	exportsAtOnce    = 2
	exportsPerTenant = 4 // requests of a tenant, of which one has its turn
	exportRetry      = 5 // seconds until one that got no place may try again
)

var (
	errBusy        = errs.New(errs.Unavailable, "too many files are being made; try again")
	errManyExports = errs.New(errs.TooMany, "too many files of this tenant are being made")
)

// statementCSV is GET /auth/accounts/:accountRef/statement.csv, an addition: all lines that the
// query asks for.
func (e *edge) statementCSV(c *fiber.Ctx) error {
	return e.export(c, "text/csv; charset=utf-8", "csv", func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (string, error) {
		a, _, lines, err := e.Accounts.Lines(ctx, caller(c).ID, ref, f, maxCSVLines)
		if err != nil {
			return "", err
		}
		return a.AccountRef, statement.CSV(b, lines)
	})
}

// statementPDF is GET /auth/accounts/:accountRef/statement.pdf, an addition: the same lines, to be
// printed.
func (e *edge) statementPDF(c *fiber.Ctx) error {
	return e.export(c, "application/pdf", "pdf", func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (string, error) {
		t := caller(c)
		a, opening, lines, err := e.Accounts.Lines(ctx, t.ID, ref, f, maxPDFLines)
		if err != nil {
			return "", err
		}
		s := statement.Sheet{
			Tenant: t.Name, Holder: a.BankAccountName, Number: a.BankAccountNumber, Bank: a.BankName, Ref: a.AccountRef,
			Filter: f, Opening: opening, At: e.Accounts.Clock.Now(),
		}
		for l, err := range lines {
			if err != nil {
				return "", err
			}
			s.Lines = append(s.Lines, l)
		}
		return a.AccountRef, statement.PDF(b, s)
	})
}

// export answers with a file that is made whole before, so that a refusal is a refusal and not half
// a file.
func (e *edge) export(c *fiber.Ctx, media, ending string, write func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (name string, err error)) error {
	f, err := statementFilter(c)
	if err != nil {
		return err
	}
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
	var b bytes.Buffer
	name, err := write(ctx, &b, pathParam(c, accountRef), f)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, media)
	c.Set(fiber.HeaderContentDisposition, attachment(name, e.Accounts.Clock.Now(), ending))
	return c.Send(b.Bytes())
}

// attachment is a Content-Disposition that offers the file under the account's name, as far as file
// names go, and the day.
func attachment(ref string, at time.Time, ending string) string {
	safe := []rune(ref)
	for i, r := range safe {
		if !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' || r == '_') {
			safe[i] = '-'
		}
	}
	name := "statement-" + string(safe[:min(len(safe), 80)]) + "-" + at.Format(time.DateOnly) + "." + ending
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}
