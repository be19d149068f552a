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

// Largest exported statement, in lines. It keeps the file at a few megabytes and its creation well
// within the deadline.
const (
	maxCSVLines = 50_000
	maxPDFLines = 5_000
)

// How many exports run at once, at most one for each tenant. Others wait, as long as a request may
// take.
const (
	exportsAtOnce    = 2
	exportsPerTenant = 4 // requests of a tenant, one of which runs
	exportRetry      = 5 // seconds after which a refused request may try again
)

var (
	errBusy        = errs.New(errs.Unavailable, "too many exports are running; try again")
	errManyExports = errs.New(errs.TooMany, "too many exports of this tenant are running")
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
		if s.Closing, err = e.Accounts.Closing(ctx, a, f, opening, s.Lines); err != nil {
			return "", err
		}
		return a.AccountRef, statement.PDF(b, s)
	})
}

// export sends a statement.
func (e *edge) export(c *fiber.Ctx, media, ending string, write func(ctx context.Context, b *bytes.Buffer, ref string, f ledger.Filter) (name string, err error)) error {
	f, err := statementFilter(c)
	if err != nil {
		return err
	}
	return e.sendFile(c, media, ending, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		name, err := write(ctx, b, pathParam(c, accountRef), f)
		return "statement-" + name, err
	})
}

// sendFile sends a file that was completed before, so that an error is an error and not half a
// file.
func (e *edge) sendFile(c *fiber.Ctx, media, ending string, write func(ctx context.Context, b *bytes.Buffer) (name string, err error)) error {
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
	name, err := write(ctx, &b)
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, media)
	c.Set(fiber.HeaderContentDisposition, attachment(name, e.Accounts.Clock.Now(), ending))
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
	name := string(safe[:min(len(safe), 90)]) + "-" + at.Format(time.DateOnly) + "." + ending
	return mime.FormatMediaType("attachment", map[string]string{"filename": name})
}
