// Package customer owns the customers: the tenant's own clients, one for each externalRef.
//
// What always holds: (tenant, externalRef) names one customer; BVN and NIN are kept sealed, and only their last four
// digits are ever shown. (Specification, "Customer".)
package customer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/errs"
	"ajo/internal/pg"
	"ajo/internal/secret"
)

// ErrSuspended says that the customer may not get a new account.
var ErrSuspended = errs.New(errs.Forbidden, "customer is suspended")

// New names the customer that an account is opened for.
type New struct {
	TenantID    uuid.UUID
	ExternalRef string
	Name        string
	BVN         secret.Redacted // 11 digits, or empty
}

// Ensure creates the customer, or finds the one that (tenant, externalRef) has, and returns its id. The name of an existing
// customer stays; a BVN is added where none was kept. It runs in the transaction that inserts the account.
func Ensure(ctx context.Context, tx pg.Tx, box *secret.Box, now time.Time, n New) (uuid.UUID, error) {
	id := uuid.Must(uuid.NewV7())
	var status string
	var hasBVN bool
	err := tx.QueryRow(ctx, `
		INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5)
		ON CONFLICT (tenant_id, external_ref) DO UPDATE SET external_ref = excluded.external_ref
		RETURNING id, status, bvn IS NOT NULL`, id, n.TenantID, n.ExternalRef, n.Name, now).Scan(&id, &status, &hasBVN)
	if err != nil {
		return id, err
	}
	if status != "active" {
		return id, ErrSuspended
	}
	bvn := n.BVN.Reveal()
	if bvn == "" || hasBVN {
		return id, nil
	}
	sealed := box.Seal(secret.Place{Table: "customers", Column: "bvn", Row: id.String()}, []byte(bvn))
	_, err = tx.Exec(ctx, `UPDATE customers SET bvn = $2, bvn_last4 = $3, updated_at = $4 WHERE id = $1`, id, sealed, bvn[len(bvn)-4:], now)
	return id, err
}
