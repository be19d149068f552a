package tenant

import (
	"context"
	"time"

	"ajo/internal/pg"
)

// How many networks of an owner are remembered, and for how long after a login.
const (
	maxKnownNetworks = 20
	networkLife      = 90 * 24 * time.Hour
)

// KnowsNetwork reports whether somebody has logged in to the address from the network. It runs the
// same query for an unknown address.
func (s *Service) KnowsNetwork(ctx context.Context, email, network string) (known bool, err error) {
	err = s.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM known_networks WHERE email = $1 AND network = $2 AND last_at > $3)`,
		NormalizeEmail(email), network, s.Clock.Now().Add(-networkLife)).Scan(&known)
	return known, err
}

// RememberNetwork records that the owner of the address has logged in from the network.
func (s *Service) RememberNetwork(ctx context.Context, email, network string) error {
	return pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO known_networks (email, network, last_at) VALUES ($1, $2, $3)
			ON CONFLICT (email, network) DO UPDATE SET last_at = excluded.last_at`, email, network, s.Clock.Now())
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			DELETE FROM known_networks WHERE email = $1 AND network IN (
				SELECT network FROM known_networks WHERE email = $1 ORDER BY last_at DESC OFFSET $2)`, email, maxKnownNetworks)
		return err
	})
}
