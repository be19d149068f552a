package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ajo/internal/audit"
	"ajo/internal/failpoint"
	"ajo/internal/money"
	"ajo/internal/retry"
	"ajo/internal/sandbox"
	"ajo/internal/secret"
	"ajo/internal/signature"
	"ajo/internal/trace"
	"ajo/internal/webhook"
)

// The tenant's own system may be asked about a payout that awaits approval. Its approval counts as
// one, and its rejection ends the payout, but only in an answer that is signed for this very
// question. Anything else counts as no answer: members can decide, and the system is asked again on
// the transfer's schedule until the time for approvals ends.

// byHook is the member_id of the hook's decision. No member has it.
var byHook = uuid.Nil

// hookToAsk is, as SQL, the hook to ask about a transfer t; empty: none.
const hookToAsk = `CASE WHEN ` + awaitsApproval + ` AND t.approval_hook IS NOT NULL
			AND (SELECT count(*) FROM transfer_approvals p WHERE p.transfer_id = t.id AND p.member_id = '00000000-0000-0000-0000-000000000000') = 0
		THEN t.approval_hook ELSE '' END`

// hookQuestion is the body of the question to the tenant's system. It is signed like a webhook.
type hookQuestion struct {
	Type          string       `json:"type"` // payout.approval
	MerchantTxRef string       `json:"merchantTxRef"`
	Amount        money.Amount `json:"amount"`
	Currency      string       `json:"currency"`
	BankCode      string       `json:"bankCode"`
	AccountNumber string       `json:"accountNumber"`
	Narration     string       `json:"narration"`
	ExpiresAt     time.Time    `json:"expiresAt"` // when the payout ends without approvals
	Nonce         string       `json:"nonce"`     // unique to this question; the answer's signature covers it
}

// hookAnswer is the body of its answer, with status 200.
type hookAnswer struct {
	Decision  Decision `json:"decision"`
	Signature string   `json:"signature"` // [signature.Approval]
}

// errNoAnswer says that a response does not count as an answer.
var errNoAnswer = errors.New("the approval hook gave no valid answer")

// askHook asks the tenant's system about a claimed transfer, and records a clear answer.
func (s *Service) askHook(ctx context.Context, st *claimed) error {
	d, err := s.hookDecision(ctx, st)
	if err == nil {
		_, err = s.Decide(ctx, st.TenantID, st.Ref, Maker{Member: byHook, By: audit.By{Actor: "service:approval-hook", Reason: "the answer of the tenant's own system"}}, d)
		if errors.Is(err, ErrNotAwaiting) || errors.Is(err, ErrDecided) {
			return nil // it was decided meanwhile
		}
		return err
	}
	if ctx.Err() != nil {
		return err // after the lease has ended, it is asked again
	}
	p := s.postponement(st, s.Clock.Now(), false, err)
	if end := st.approvalEnd(); p.next.After(end) {
		p.next = &end
	}
	held, recorded := s.postpones.Do(ctx, p)
	if recorded != nil || !held {
		return recorded
	}
	return retry.At(*p.next, err)
}

// hookDecision reads the decision from the tenant's answer. An answer that is late, cut off,
// unsigned, or signed for another payout, sum or question is an error.
func (s *Service) hookDecision(ctx context.Context, st *claimed) (Decision, error) {
	now := s.Clock.Now()
	secrets, err := webhook.ReadSecrets(ctx, s.Pool, s.Box, st.TenantID, now)
	if err != nil {
		return "", fmt.Errorf("the secret for the approval hook: %w", err)
	}
	q := hookQuestion{
		Type: "payout.approval", MerchantTxRef: st.Ref, Amount: st.Amount, Currency: "NGN", BankCode: st.BankCode, AccountNumber: st.AccountNumber,
		Narration: st.Narration, ExpiresAt: st.approvalEnd().UTC(), Nonce: secret.NewToken().Reveal(),
	}
	body, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"ajo"}}
	if s.Test {
		header.Set(sandbox.ModeHeader, sandbox.ModeTest)
	}
	webhook.Sign(header, secrets, q.Nonce, now, body)
	defer s.keepLease(ctx, st).Release()
	calling, span := trace.Step(ctx, "ask the approval hook")
	failpoint.At("approval/before-ask")
	r, err := s.Hooks.Post(calling, st.hook, header, body)
	failpoint.At("approval/after-ask")
	span.End()
	if err != nil {
		return "", fmt.Errorf("ask the approval hook: %w", err)
	}
	var a hookAnswer
	if r.StatusCode != http.StatusOK || json.Unmarshal(r.Body, &a) != nil || a.Decision != Approve && a.Decision != Reject {
		return "", fmt.Errorf("%w: HTTP %d", errNoAnswer, r.StatusCode)
	}
	for _, key := range secrets {
		if signature.VerifyApproval(a.Signature, key.Reveal(), string(a.Decision), q.MerchantTxRef, q.Amount.String(), q.Nonce) == nil {
			return a.Decision, nil
		}
	}
	return "", fmt.Errorf("%w: it is not signed for this question", errNoAnswer)
}
