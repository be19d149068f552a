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
	_, err := s.remember(ctx, email, network)
	return err
}

// remember records the network, and reports whether it was known.
func (s *Service) remember(ctx context.Context, email, network string) (known bool, err error) {
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		err := tx.QueryRow(ctx, `
			WITH had AS (SELECT FROM known_networks WHERE email = $1 AND network = $2 AND last_at > $4)
			INSERT INTO known_networks (email, network, last_at) VALUES ($1, $2, $3)
			ON CONFLICT (email, network) DO UPDATE SET last_at = excluded.last_at
			RETURNING EXISTS (SELECT FROM had)`, email, network, now, now.Add(-networkLife)).Scan(&known)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			DELETE FROM known_networks WHERE email = $1 AND network IN (
				SELECT network FROM known_networks WHERE email = $1 ORDER BY last_at DESC OFFSET $2)`, email, maxKnownNetworks)
		return err
	})
	return known, err
}
