package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ajo/internal/signature"
)

// approvalType is the type of the question that the approval hook is asked.
const approvalType = "payout.approval"

// ErrNotApproval refuses what is signed and is no question about a payout.
var ErrNotApproval = errors.New("the body is no question of the approval hook")

// ApprovalQuestion is what your own system is asked about a payout, at the policy's hook.
type ApprovalQuestion struct {
	Type          string    `json:"type"` // payout.approval
	MerchantTxRef string    `json:"merchantTxRef"`
	Amount        string    `json:"amount"`
	Currency      string    `json:"currency"`
	BankCode      string    `json:"bankCode"`
	AccountNumber string    `json:"accountNumber"`
	Narration     string    `json:"narration"`
	ExpiresAt     time.Time `json:"expiresAt"` // when the payout fails without approvals
	Nonce         string    `json:"nonce"`     // of this question alone
}

// ApprovalAnswer is the JSON body to answer with, with status 200 and within 5 seconds.
type ApprovalAnswer struct {
	Decision  string `json:"decision"` // approve, reject
	Signature string `json:"signature"`
}

// VerifyApproval checks that a question is Ajo's and fresh, and reads it. Its arguments and errors
// are those of [VerifyWebhook], and [ErrNotApproval]. Answer 400 on an error: that decides nothing.
func VerifyApproval(header http.Header, body []byte, secret string, tolerance time.Duration) (ApprovalQuestion, error) {
	var q ApprovalQuestion
	if err := verify(header, body, secret, tolerance); err != nil {
		return q, err
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return ApprovalQuestion{}, fmt.Errorf("the question's body: %w", err)
	}
	if q.Type != approvalType || q.MerchantTxRef == "" || q.Nonce == "" {
		return ApprovalQuestion{}, ErrNotApproval
	}
	return q, nil
}

// Approve is the answer that lets the payout go, as far as your system is asked. Secret is what the
// question was verified with. The answer is good for this question alone.
func (q ApprovalQuestion) Approve(secret string) ApprovalAnswer { return q.answer(secret, "approve") }

// Reject is the answer that ends the payout. The money is back in the account.
func (q ApprovalQuestion) Reject(secret string) ApprovalAnswer { return q.answer(secret, "reject") }

func (q ApprovalQuestion) answer(secret, decision string) ApprovalAnswer {
	return ApprovalAnswer{decision, signature.Approval(secret, decision, q.MerchantTxRef, q.Amount, q.Nonce)}
}
