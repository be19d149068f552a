package transfer_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/audit"
	"ajo/internal/pg"
	"ajo/internal/testenv"
	"ajo/internal/transfer"
)

// A member's session is asked about behind the locks always, and its line says who it was.
func TestMembersAreCheckedBehindTheLocks(t *testing.T) {
	b := setup(t)
	b.fund("1000.00")
	gone, ends := errors.New("the session was ended"), false
	a := b.ask("40.00", "")
	a.Order.Maker = transfer.Maker{
		Member: uuid.New(),
		By: audit.Session("ada@shop.example", netip.MustParseAddr("198.51.100.7")).While(func(context.Context, pg.Querier) error {
			if ends {
				return gone
			}
			return nil
		}),
	}
	for _, ends = range []bool{false, true} {
		out := b.svc.SettleTogether(b.ctx, []transfer.Ask{a, b.ask("1.00", "")})
		require.NoError(t, out[1].Err)
		require.Equal(t, ends, errors.Is(out[0].Err, gone))
	}
	require.Equal(t, "958.00", b.balance())
	require.Equal(t, 1, testenv.Value[int](b.Env, `SELECT count(*) FROM audit_log WHERE action = 'transfer.settle'`))
}
