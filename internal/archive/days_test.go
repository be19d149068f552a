package archive_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/partition"
	"ajo/internal/testenv"
)

// 160 days at a steady rate: what the deliveries take on disk, and the number of their partitions,
// are as after the first weeks.
func TestDiskStaysFlat(t *testing.T) {
	b := setup(t, 0)
	const days, keep, perDay = 160, 31, 40
	const ofDeliveries = `WHERE inhparent IN ('deliveries'::regclass, 'delivery_attempts'::regclass)`
	b.opts.KeepDeliveries = keep * day
	s := b.with(b.opts.Store)
	var parts, bytes []int
	for d := range days {
		b.Clock.Set(b.begin.Add(time.Duration(d) * day).Add(12 * time.Hour))
		require.NoError(t, partition.MakeAhead(b.ctx, b.Pool, partition.Week, b.Clock.Now()))
		b.deliver(b.Clock.Now(), perDay)
		if d%7 == 6 { // a partition ends once a week
			require.NoError(t, s.Run(b.ctx))
			parts = append(parts, testenv.Value[int](b.Env, `SELECT count(*)::int FROM pg_inherits `+ofDeliveries))
			bytes = append(bytes, testenv.Value[int](b.Env, `SELECT sum(pg_total_relation_size(inhrelid))::int FROM pg_inherits `+ofDeliveries))
		}
	}
	for _, series := range [][]int{parts, bytes} {
		early, late := series[8], series[len(series)-1]
		require.LessOrEqual(t, late, early*11/10, "%v", series)
	}
	require.LessOrEqual(t, b.rows("deliveries"), (keep+14)*perDay)
	require.Equal(t, days*perDay, b.rows("deliveries")+testenv.Value[int](b.Env,
		`SELECT sum((manifest ->> 'rows')::int)::int FROM archives WHERE table_name = 'deliveries' AND status = 'archived'`), "nothing is lost")
	r, err := s.Verify(b.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, r.Findings)
}
