package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/tenant"
)

func (t *tool) newTenantKeysCmd() *cobra.Command {
	return newListCmd(t, listing[tenant.KeyRecord]{
		command: command{
			use: "keys <id or e-mail>", short: "List the API keys of a tenant, newest first",
			long: `Lists the API keys of a tenant, newest first, including those that ended within the last 90 days: what each may do, from where, and when
it was last used. The keys themselves are not stored.`,
			example: "  ajo tenant keys ops@shop.example", complete: t.tenants(),
		},
		args: cobra.ExactArgs(1),
		read: ofTenant((*tenant.Service).Keys),
		row: func(k tenant.KeyRecord, _ time.Time) []field {
			from := ""
			if k.LastUsedFrom != nil {
				from = k.LastUsedFrom.String()
			}
			return []field{
				{"KEY", k.ID.String()},
				{"NAME", k.Name},
				{"SUFFIX", k.Suffix},
				{"STATUS", string(k.Status)},
				{"MAIN", yesNo(k.Main)},
				{"SCOPES", commas(k.Scopes)},
				{"NETWORKS", commas(k.Networks)},
				{"CREATED", stamp(&k.CreatedAt)},
				{"EXPIRES", stamp(k.ExpiresAt)},
				{"LAST USED", stamp(k.LastUsedAt)},
				{"FROM", from},
			}
		},
	})
}

func commas[T any](list []T) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ",")
}

// keyRevoked is the result of revoke-key as JSON.
type keyRevoked struct {
	TenantID uuid.UUID
	Key      tenant.KeyRecord
}

func (t *tool) newRevokeKeyCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "revoke-key <id or e-mail> <key>", short: "Revoke one API key of a tenant", complete: t.tenants(),
			long: `Revokes one API key of a tenant: it is refused from the next request on. The tenant's other keys and its sessions keep working. Its audit
log shows that the service revoked the key.`,
			example: `  ajo tenant revoke-key ops@shop.example 0198c0de-0000-7000-8000-000000000001 --reason "ticket 4711: the key was published"`,
		},
		args: cobra.ExactArgs(2),
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			r, err := tools.Tenants.Find(ctx, args[0])
			if err != nil {
				return plan{}, err
			}
			id, err := uuid.Parse(args[1])
			if err != nil {
				return plan{}, tenant.ErrKeyNotFound
			}
			k, err := tools.Tenants.Key(ctx, r.ID, id)
			if err != nil {
				return plan{}, err
			}
			if k.Status == tenant.KeyRevoked || k.Status == tenant.KeyExpired {
				same := done(keyRevoked{r.ID, k}, "API key %q (%s) of tenant %q (%s) is %s already; nothing was changed.", k.Name, k.Suffix, r.Name, r.Email, k.Status)
				return plan{noChange: &same}, nil
			}
			which := "API key"
			if k.Main {
				which = "main API key"
			}
			return plan{
				will: fmt.Sprintf("Revoke the %s %q (%s) of tenant %s: it is refused from the next request on.", which, k.Name, k.Suffix, nameAndStatus(r)),
				do: func(by audit.By) (result, error) {
					k, err := tools.Tenants.RevokeKey(ctx, r.ID, id, by)
					return done(keyRevoked{r.ID, k}, "API key %q (%s) of tenant %q (%s) is %s.", k.Name, k.Suffix, r.Name, r.Email, k.Status), err
				},
			}, nil
		},
	})
}
