package workers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/metrics"
	"ajo/internal/partition"
	"ajo/internal/testenv"
)

// tidied is when a process has tidied, as the metrics say.
func tidied(t *testing.T) int64 {
	t.Helper()
	families, err := metrics.Gatherer().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "ajo_tidy_last_success_timestamp_seconds" {
			return int64(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	t.Fatal("no metric")
	return 0
}

// A Postgres that is silent, as behind a proxy that goes on without it, holds up no part of tidying
// for longer than its time; and that nothing was tidied shows.
func TestTidyBesideASilentPostgres(t *testing.T) {
	t.Parallel()
	b := setup(t)
	line := b.LostCommits()
	o := b.opts
	o.Pool, o.Partition = line.Pool, partition.Month
	at := time.Now().Add(77 * time.Minute) // nobody else's
	o.Clock = clock.NewFake(at)
	w := &Workers{Options: o}
	line.Stall(true)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.tidyOnce(b.ctx, 100*time.Millisecond, 100*time.Millisecond)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatal("tidying does not end")
	}
	require.NotEqual(t, at.Unix(), tidied(t))
	line.Stall(false)
	testenv.Eventually(t, time.Minute, "a success", func() bool {
		w.tidyOnce(b.ctx, time.Minute, time.Minute)
		return tidied(t) == at.Unix()
	})
}
