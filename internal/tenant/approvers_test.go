package tenant

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/testenv"
)

// awaiting has so many payouts of 60.00 await an approval, which the member asked for; uuid.Nil: a
// key.
func (s *shop) awaiting(n int, maker uuid.UUID) {
	s.T.Helper()
	s.Exec(`INSERT INTO transfers (id, tenant_id, account_id, merchant_tx_ref, status, amount, bank_code, account_number, narration, created_at, updated_at, approvals_needed, made_by, debit_seq, debits_to)
		SELECT gen_random_uuid(), $1, a.id, 'ref-' || gen_random_uuid(), 'pending', 60, '058', '0123456789', '', $2, $2, 1, nullif($3, '00000000-0000-0000-0000-000000000000'::uuid), n, 60 * n
		FROM generate_series(1, $4) n, (SELECT id FROM accounts WHERE tenant_id = $1) a`, s.id, s.Env.Clock.Now(), maker, n)
}

// mailed sends what is due from several processes at once, and returns who got an e-mail, with its
// first line.
func (s *shop) mailed() map[string]string {
	s.T.Helper()
	counts, fails := make([]int, 4), make([]error, 4)
	var all sync.WaitGroup
	for i := range counts {
		all.Go(func() { counts[i], fails[i] = s.MailApprovers(context.Background()) })
	}
	all.Wait()
	require.NoError(s.T, errors.Join(fails...))
	total := 0
	for _, n := range counts {
		total += n
	}
	var fresh []string
	got := map[string]string{}
	testenv.Eventually(s.T, 10*time.Second, "the e-mails", func() bool {
		fresh = nil
		clear(got)
		for _, m := range s.box.all() {
			if m.Subject == "Payouts await your approval" {
				fresh = append(fresh, m.To)
				got[m.To], _, _ = strings.Cut(m.Text, "\n")
			}
		}
		return len(fresh) == total
	})
	require.Len(s.T, got, total, "one each: %v", fresh)
	s.box.mu.Lock()
	s.box.sent = nil
	s.box.mu.Unlock()
	return got
}

// Who may approve gets an e-mail about payouts that wait: one an hour at most, however many wait,
// and never a second one about the same.
func TestApproversAreMailed(t *testing.T) {
	b := setup(t)
	ctx := context.Background()
	s, other := b.shop("ada@example.com"), b.shop("eve@example.com")
	b.Account(s.id, "shop")
	b.Account(other.id, "shop")
	bola, _ := s.joined("bola@example.com", Finance)
	s.joined("dev@example.com", Developer)
	s.joined("see@example.com", Viewer)
	gone, _ := s.joined("gone@example.com", Finance)
	_, err := s.RemoveMember(ctx, s.id, gone.ID, bySession)
	require.NoError(t, err)
	s.invited("soon@example.com", Finance, 1)
	none := map[string]string{}
	one, many := "A payout of Ada Stores awaits your approval: NGN 60.00.", "1001 payouts of Ada Stores await your approval: NGN 60060.00 in all."

	require.Equal(t, none, s.mailed(), "nothing waits")
	s.awaiting(1, uuid.Nil)
	require.Equal(t, none, s.mailed(), "others may follow at once")
	b.Env.Clock.Advance(time.Minute)
	require.Equal(t, map[string]string{"ada@example.com": one, "bola@example.com": one}, s.mailed())
	s.awaiting(1000, uuid.Nil)
	b.Env.Clock.Advance(59 * time.Minute)
	require.Equal(t, none, s.mailed(), "an hour has not passed")
	b.Env.Clock.Advance(time.Minute)
	require.Equal(t, map[string]string{"ada@example.com": many, "bola@example.com": many}, s.mailed())
	b.Env.Clock.Advance(2 * time.Hour)
	require.Equal(t, none, s.mailed(), "nothing new waits")

	b.Exec(`INSERT INTO transfer_approvals (transfer_id, member_id, tenant_id, decision, decided_at)
		SELECT id, $2, $1, 'approve', $3 FROM transfers WHERE tenant_id = $1 ORDER BY id LIMIT 1000`, s.id, bola.ID, b.Env.Clock.Now())
	s.awaiting(1, bola.ID)
	s.awaiting(1, uuid.Nil)
	b.Env.Clock.Advance(time.Minute)
	require.Equal(t, map[string]string{
		"ada@example.com":  "1003 payouts of Ada Stores await your approval: NGN 60180.00 in all.",
		"bola@example.com": "2 payouts of Ada Stores await your approval: NGN 120.00 in all.",
	}, s.mailed(), "neither what she has decided nor what she asked for")
	b.Env.Clock.Advance(2 * time.Hour)
	s.awaiting(1, bola.ID)
	b.Env.Clock.Advance(time.Minute)
	require.Len(t, s.mailed(), 1, "her own is the owner's to decide")

	other.awaiting(1, uuid.Nil)
	_, err = b.Suspend(ctx, other.id, bySession)
	require.NoError(t, err)
	b.Env.Clock.Advance(time.Minute)
	require.Equal(t, none, s.mailed(), "nobody of a suspended tenant can log in")
	_, err = b.Activate(ctx, other.id, bySession)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"eve@example.com": one}, s.mailed())
	b.Env.Clock.Advance(2 * time.Hour)
	b.Exec(`UPDATE transfers SET status = 'failed' WHERE waiting`)
	s.awaiting(1, uuid.Nil)
	b.Exec(`UPDATE transfers SET status = 'failed' WHERE waiting`)
	b.Env.Clock.Advance(time.Minute)
	require.Equal(t, none, s.mailed(), "what has ended awaits nobody")

	b.ExecUnguarded(`UPDATE members SET mailed_until = $2 WHERE tenant_id = $1`, s.id, b.Env.Clock.Now().Add(5*time.Minute))
	s.awaiting(1, uuid.Nil)
	b.Env.Clock.Advance(time.Minute)
	require.Equal(t, map[string]string{"ada@example.com": one, "bola@example.com": one}, s.mailed(), "it was set by a clock that was ahead")
}

// A member whose row somebody has locked is left to the next call: nobody waits, and no e-mail is
// sent twice.
func TestApproversAreMailedBesideAChange(t *testing.T) {
	b := setup(t)
	s := b.shop("ada@example.com")
	b.Account(s.id, "shop")
	bola, _ := s.joined("bola@example.com", Finance)
	s.awaiting(1, uuid.Nil)
	b.Env.Clock.Advance(time.Minute)
	mail := func() (n int) {
		n, err := b.MailApprovers(context.Background())
		require.NoError(t, err)
		return n
	}
	beside := 0
	require.NoError(t, b.Beside(testenv.Runs(`SELECT FROM members WHERE id = $1 FOR NO KEY UPDATE`, bola.ID), func() error { beside = mail(); return nil }))
	require.Equal(t, []int{1, 1, 0}, []int{beside, mail(), mail()})
}

// A burst of members is mailed in parts, none of them twice.
func TestApproversAreMailedInParts(t *testing.T) {
	b := setup(t)
	s := b.shop("ada@example.com")
	b.Account(s.id, "shop")
	b.Exec(`INSERT INTO members (id, tenant_id, email, name, role, password_hash, invited_at, joined_at)
		SELECT gen_random_uuid(), $1, 'm' || n || '@example.com', 'Bola', 'finance', 'x', $2, $2 FROM generate_series(1, 149) n`, s.id, b.Env.Clock.Now())
	s.awaiting(1, uuid.Nil)
	b.Env.Clock.Advance(time.Minute)
	for _, want := range []int{100, 50, 0} {
		n, err := b.MailApprovers(context.Background())
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
}
