package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/tenant"
)

// closing is the result of a close as JSON.
type closing struct {
	Closed  bool
	Waiting int64 // accounts that are still to be closed at the bank
	Tenant  tenant.Record
}

func (t *tool) newCloseTenantCmd() *cobra.Command {
	return t.tenantChange(command{
		use: "close <id or e-mail>", short: "Close a tenant that has no money left",
		long: `Closes a tenant: it is suspended, its accounts are expired and closed at the bank, and then its API keys are revoked. Refused while the
tenant has money, a hold, a transfer under way, an unconfirmed payment, a review or a recall. The workers close the accounts at the bank and
retry where that fails; run the command again until it says that the tenant is closed. If money comes in meanwhile, it is refused from then on:
the tenant stays suspended, and accounts that have ended stay so. Its books and history stay. "ajo tenant activate"
opens it again, without its accounts and keys. A row whose provisioning nobody finishes is removed, as by "ajo accounts close" (a number
that the bank may have opened for it is closed with the settings AJO_PROVIDER_*).`,
		example: `  ajo tenant close ops@shop.example --reason "contract 12 has ended"`,
	}, func(ctx context.Context, tools *app.Tools, r tenant.Record) (plan, error) {
		return plan{
			will:     fmt.Sprintf("Close tenant %s: its accounts are ended and closed at the bank, and its credentials are refused from now on.", nameAndStatus(r)),
			enqueues: true,
			do: func(by audit.By) (result, error) {
				n, open, err := tools.CloseTenant(ctx, r.ID, by)
				note := ""
				if len(open) > 0 {
					note = "Numbers that the bank may have opened under these references are not closed there; close them with the bank: " + strings.Join(open, ", ")
				}
				if err != nil {
					err = closeStopped(ctx, tools, r.ID, err)
				} else {
					r, err = tools.Tenants.Find(ctx, r.ID.String())
				}
				switch {
				case err != nil && note != "": // their rows are gone: nothing names them later
					return result{}, fmt.Errorf("%w. %s", err, note)
				case err != nil:
					return result{}, err
				}
				c := closing{r.Status == tenant.Closed, n, r}
				out := done(c, "Tenant %q (%s) is closed.", r.Name, r.Email)
				if n > 0 {
					out = done(c, "Tenant %q (%s) is suspended. Accounts still to be closed at the bank: %d. Run this again when the workers have closed them.", r.Name, r.Email, n)
				}
				out.note = note
				return out, nil
			},
		}, nil
	})
}

// closeStopped adds to the error of a close what the tenant is: it may have been suspended and its
// accounts ended, by this call or one before it, and then an error alone reads as if nothing was
// done.
func closeStopped(ctx context.Context, tools *app.Tools, id uuid.UUID, why error) error {
	r, err := tools.Tenants.Find(ctx, id.String())
	if err != nil || r.Status != tenant.Suspended {
		return why
	}
	switch open, err := tools.Tenants.OpenAccounts(ctx, id); {
	case err != nil:
		return fmt.Errorf("%w. The tenant is suspended", why)
	case open > 0:
		return fmt.Errorf("%w. The tenant is suspended; accounts that are still open: %d", why, open)
	}
	return fmt.Errorf("%w. The tenant is suspended and has no open account: accounts that have ended do not open again", why)
}
