package api

import (
	"encoding/csv"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/tenant"
)

// What a tenant does with its sessions, keys and settings, and what operators do to it, stands in
// its audit log: who, what, from where, before and after; no secret, no operator's name or reason,
// and nothing of another tenant.
func TestAuditOfATenant(t *testing.T) {
	w := setup(t)
	m, other := w.onboard(), w.onboard()
	w.newKey(other, "another's", []tenant.Scope{tenant.AccountsRead})
	k := w.newKey(m, "Reader", []tenant.Scope{tenant.AccountsRead, tenant.WebhooksWrite}, "127.0.0.0/8")
	w.do("POST", "/auth/webhook-url", `{"url":"https://shop.example/hook?token=very-secret"}`, "X-API-Key", k.APIKey).ok(200, nil)
	w.do("POST", "/auth/webhook-url", `{"url":"https://shop.example/hook?token=very-secret"}`, "X-API-Key", k.APIKey).ok(200, nil)
	w.do("POST", "/auth/webhook-events", `{"events":["payment.reversed"]}`, m.withSession()...).ok(200, nil)
	w.do("POST", "/auth/business-kyc", `{"businessType":"ngo"}`, m.withSession()...).ok(200, nil)
	w.do("POST", "/auth/keys/"+k.Key.ID.String()+"/revoke", "", m.withSession()...).ok(200, nil)
	shown, err := w.opts.Tenants.Find(t.Context(), m.id.String())
	require.NoError(t, err)
	_, err = w.opts.Tenants.RotateWebhookSecret(t.Context(), shown, audit.By{Actor: "cli:musa", Reason: "ticket 4711: we suspect fraud"})
	require.NoError(t, err)
	w.do("POST", "/auth/password", fmt.Sprintf(`{"oldPassword":%q,"newPassword":"another horse"}`, password), m.withSession()...).ok(200, nil)

	type line struct {
		Actor, Action, Target string
		Address               *string
		Before, After         any
	}
	list := func(query string) (lines []line) {
		t.Helper()
		for after := ""; ; {
			var page struct {
				Entries    []line
				Pagination struct{ NextCursor *string }
			}
			r := w.do("GET", "/auth/audit?limit=2&after="+after+query, "", m.withSession()...).ok(200, &page)
			for _, never := range []string{"very-secret", "musa", "4711", "fraud", "another's", other.email, "ajo_", password, "another horse"} {
				require.NotContains(t, r.Body, never)
			}
			lines = append(lines, page.Entries...)
			if page.Pagination.NextCursor == nil {
				return lines
			}
			after = *page.Pagination.NextCursor
		}
	}
	session, key := "session:"+m.email, "key:"+k.Key.ID.String()
	var got []string
	for _, l := range list("") {
		got = append(got, l.Action+" "+l.Actor)
		require.Equal(t, l.Actor != "operator", l.Address != nil && *l.Address == "127.0.0.1", l.Action)
		switch l.Action {
		case "webhook.url":
			require.Equal(t, map[string]any{"url": ""}, l.Before)
			require.Equal(t, map[string]any{"url": "https://shop.example/hook?…"}, l.After)
		case "webhook.events":
			require.Equal(t, []any{"payment.received", "payment.reversed"}, l.After)
		case "keys.revoke":
			require.Equal(t, key, l.Target)
			require.Nil(t, l.After)
		}
	}
	require.Equal(t, []string{
		"password.change " + session, "tenant.rotate-secret operator", "keys.revoke " + session, "tenant.kyc " + session, "webhook.events " + session,
		"webhook.url " + key, "webhook.secret " + key, "keys.create " + session, "session.begin " + session,
	}, got)
	require.Len(t, list("&actor=operator"), 1)
	require.Len(t, list("&actor="+url.QueryEscape(key)), 2)
	require.Len(t, list("&action=keys.create"), 1)
	require.Len(t, list("&from=2000-01-01&to=2000-01-02"), 0)
	w.do("GET", "/auth/audit?from=x", "", m.withSession()...).refused(400, "from must be a date such as 2026-01-30 or an ISO 8601 time such as 2026-01-30T12:15:00Z")

	file := w.do("GET", "/auth/audit.csv?action=webhook.url", "", m.withSession()...).ok(200, nil)
	require.Equal(t, "text/csv; charset=utf-8", file.Header.Get("Content-Type"))
	require.Regexp(t, `^attachment; filename=audit-[0-9-]+[.]csv$`, file.Header.Get("Content-Disposition"))
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(file.Body, "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, []string{key, "webhook.url", "tenant:" + m.id.String(), "127.0.0.1"}, rows[1][1:5])
	require.JSONEq(t, `{"url":"https://shop.example/hook?…"}`, rows[1][6])
}
