package api

import (
	"bytes"
	"context"
	"time"

	"github.com/gofiber/fiber/v2"

	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/statement"
)

// auditFilter reads the query's filter of the audit log.
func auditFilter(c *fiber.Ctx) (audit.OwnFilter, error) {
	from, to, err := queryRange(c)
	return audit.OwnFilter{Actor: c.Query("actor"), Action: c.Query("action"), From: from, To: to}, err
}

// listAudit is GET /auth/audit, an addition.
func (e *edge) listAudit(c *fiber.Ctx) error {
	f, err := auditFilter(c)
	if err != nil {
		return err
	}
	return answerPage(c, "entries", func(r page.Request) ([]audit.Line, page.Info, error) {
		return audit.Own(c.UserContext(), e.Pool, caller(c).ID, f, r)
	})
}

// auditCSV is GET /auth/audit.csv, an addition: all lines that match the filter.
func (e *edge) auditCSV(c *fiber.Ctx) error {
	f, err := auditFilter(c)
	if err != nil {
		return err
	}
	return e.sendFile(c, "text/csv; charset=utf-8", "csv", time.Time{}, func(ctx context.Context, b *bytes.Buffer) (string, error) {
		lines, err := audit.OwnAll(ctx, e.Pool, caller(c).ID, f)
		if err != nil {
			return "", err
		}
		return "audit", statement.AuditCSV(b, lines)
	})
}
