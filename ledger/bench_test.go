package ledger_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/pg"
	"ajo/ledger"
)

// BenchmarkPostCredits posts batches to one account, and spread over a hundred; the figure that
// counts is entries/s.
func BenchmarkPostCredits(bench *testing.B) {
	for _, size := range []int{1, 100} {
		for _, accounts := range []int{1, 100} {
			if accounts > size {
				continue
			}
			bench.Run(fmt.Sprintf("batch=%d/accounts=%d", size, accounts), func(bench *testing.B) {
				b := setup(bench)
				tenant, ids := b.Tenant(), make([]uuid.UUID, accounts)
				for i := range ids {
					ids[i] = b.Account(tenant, fmt.Sprintf("bench-%d", i))
				}
				n := 0
				for bench.Loop() {
					postings := make([]ledger.Posting, size)
					for i := range postings {
						postings[i] = posting(ids[i%accounts], "4975.00")
					}
					require.NoError(bench, b.tx(func(tx pg.Tx) error {
						_, err := ledger.PostCredits(b.ctx, tx, b.Clock.Now(), postings)
						return err
					}))
					n += size
				}
				bench.ReportMetric(0, "ns/op")
				bench.ReportMetric(float64(bench.Elapsed().Microseconds())/float64(n), "µs/entry")
			})
		}
	}
}
