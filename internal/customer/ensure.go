package customer

import (
	"context"
	"time"

	"github.com/google/uuid"

	"ajo/internal/pg"
	"ajo/internal/secret"
)

// NewCustomer names the customer that an account is opened for.
type NewCustomer struct {
	TenantID    uuid.UUID
	ExternalRef string
	Name        string
	BVN         secret.Redacted // 11 digits, or empty
}

// Ensure creates the customer, or finds the one that (tenant, externalRef) has, and returns its id.
// The name of an existing customer stays; a BVN is added where none was kept. It locks the
// customer's row, and runs in the transaction that inserts the account. [ErrSuspended], with the
// id: the customer may have an account already.
func Ensure(ctx context.Context, tx pg.Tx, box *secret.Box, now time.Time, n NewCustomer) (uuid.UUID, error) {
	id := uuid.Must(uuid.NewV7())
	var status Status
	var hasBVN bool
	err := tx.QueryRow(ctx, `
		INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5)
		ON CONFLICT (tenant_id, external_ref) DO UPDATE SET external_ref = excluded.external_ref
		RETURNING id, status, bvn IS NOT NULL`, id, n.TenantID, n.ExternalRef, n.Name, now).Scan(&id, &status, &hasBVN)
	if err != nil {
		return id, err
	}
	if status != Active {
		return id, ErrSuspended
	}
	bvn := n.BVN.Reveal()
	if bvn == "" || hasBVN {
		return id, nil
	}
	sealed := box.Seal(secret.Place{Table: "customers", Column: "bvn", Row: id.String()}, []byte(bvn))
	_, err = tx.Exec(ctx, `UPDATE customers SET bvn = $2, bvn_last4 = $3, updated_at = $4 WHERE id = $1`, id, sealed, last4(n.BVN), now)
	return id, err
}

// last4 is all that is ever shown of a BVN or NIN.
func last4(number secret.Redacted) string {
	s := number.Reveal()
	return s[len(s)-4:]
}
