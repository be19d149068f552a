package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
)

// link is a login link as JSON.
type link struct {
	TenantID uuid.UUID
	URL      string
	Expires  time.Time
}

func (t *tool) newLoginLinkCmd() *cobra.Command {
	var f changeFlags
	var base string
	cmd := &cobra.Command{
		Use:               "login-link <id or e-mail>",
		ValidArgsFunction: t.tenants(),
		Short:             "Make a link that opens a tenant's dashboard once, without its password",
		Long: `Makes a link that opens a tenant's dashboard once, within 10 minutes, without its password. Whoever has the link
is in: give it to nobody but the tenant. It is printed and kept nowhere.`,
		Example: `  ajo tenant login-link ops@shop.example --reason "ticket 4711: password lost" --url https://pay.example`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := f.by()
			if err != nil {
				return err
			}
			base = cmp.Or(base, t.apiURL())
			if u, err := url.Parse(base); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
				return fmt.Errorf("--url: %q is no http or https URL", base)
			}
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				r, err := tools.Tenants.Find(ctx, args[0])
				if err != nil {
					return err
				}
				token, expires, err := tools.Tenants.LoginLink(ctx, r.ID, by)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.ErrOrStderr(), printable(fmt.Sprintf("Opens the dashboard of tenant %q (%s) once, until %s:", r.Name, r.Email, stamp(&expires))))
				l := link{TenantID: r.ID, URL: app.DashboardLink(base, token), Expires: expires}
				return f.done(cmd, l, "%s", l.URL)
			})
		},
	}
	cmd.Flags().StringVar(&f.reason, "reason", "", "why this is done; kept in the audit log (required)")
	cmd.Flags().StringVar(&base, "url", "", "where the tenant reaches the API (default: AJO_HTTP_ADDR of this machine)")
	addJSON(cmd, &f.json)
	return cmd
}

// apiURL is the API of this machine, as far as the settings tell.
func (t *tool) apiURL() string {
	return "http://" + cmp.Or(t.getenv("AJO_HTTP_ADDR"), "127.0.0.1:8080")
}
