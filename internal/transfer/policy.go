package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"ajo/internal/account"
	"ajo/internal/errs"
	"ajo/internal/failpoint"
	"ajo/internal/idempotency"
	"ajo/internal/money"
	"ajo/internal/pg"
	"ajo/internal/trace"
	"ajo/ledger"
)

// A refund by an account's policy is a refund like any other, but of the money that the payment's
// own hold keeps, so it takes no other money of the account. The platform's charge on the payment,
// and the payout's fee if the tenant bears it, are deducted. The hold ends in the transaction that
// accepts the refund, so there is only one refund. If a refund cannot be made, or fails, the money
// stays held until the tenant decides.

var (
	errHoldEnded = errors.New("the policy does not hold the payment any more")
	errNoMore    = errs.New(errs.Unprocessable, "nothing is left of it after fees")
	errMade      = errs.New(errs.Unprocessable, "the account's policy has made a refund of it before")
)

// RefundByPolicy refunds a confirmed payment (named by its transaction group) to its sender, if its
// account's policy holds it for that. It does so once, however often it is called. nil: it is done,
// or the money is held until the tenant decides; an error: it cannot be done yet.
func (s *Service) RefundByPolicy(ctx context.Context, payment uuid.UUID) error {
	ctx, span := trace.Step(ctx, "refund by policy")
	defer span.End()
	var entry, tenant uuid.UUID
	if err := s.Pool.QueryRow(ctx, `SELECT id, tenant_id FROM ledger_entries WHERE transaction_group_id = $1 AND direction = 'credit'`, payment).
		Scan(&entry, &tenant); err != nil {
		return err
	}
	held, err := ledger.FindPolicyHold(ctx, s.Pool, entry)
	if err != nil || held == nil || held.Source != ledger.HeldForRefund {
		return err
	}
	err = s.makeByPolicy(ctx, tenant, entry)
	switch {
	case err == nil, errors.Is(err, errHoldEnded):
		return nil
	case errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrRecalled), errors.Is(err, ErrTakenBack), errors.Is(err, account.ErrFrozen),
		errors.Is(err, ledger.ErrInsufficientFunds), errors.Is(err, errNoBanks), errs.As(err) == nil:
		return err
	}
	return s.decline(ctx, *held, err)
}

// policyKey is the key under which a policy refunds the payment that the bank knows by txnRef.
func policyKey(tenant uuid.UUID, txnRef string) (idempotency.Request, error) {
	sum := sha256.Sum256([]byte(txnRef))
	return idempotency.NewRequest(tenant, "refund by policy: "+hex.EncodeToString(sum[:]), "", "", nil)
}

func (s *Service) makeByPolicy(ctx context.Context, tenant, entry uuid.UUID) error {
	p, err := s.readRefundable(ctx, s.Pool, s.Clock.Now(), tenant, entry)
	if err == nil {
		_, err = p.left()
	}
	if err != nil {
		return err
	}
	to, err := s.backTo(ctx, &p)
	if err != nil {
		return err
	}
	// a database that was restored from an earlier backup makes it again under the same reference
	if to.key, err = policyKey(tenant, p.TxnRef); err != nil {
		return err
	}
	to.trace, to.refund = trace.Parent(ctx), &refund{of: entry, name: p.Name, txnRef: p.TxnRef, byPolicy: true}
	err = pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		_, err := s.acceptRefund(ctx, tx, s.Clock.Now(), account.Ref{TenantID: tenant, ID: p.AccountID}, money.Zero, to)
		failpoint.At("policy/before-refund-commit")
		return err
	})
	failpoint.At("policy/after-refund-commit")
	return err
}

// madeByPolicy refuses a second refund by policy of a payment that was posted again since the
// first: [ErrRefunded] where all of that one has left. Both have one reference.
func madeByPolicy(ctx context.Context, tx pg.Tx, ref string) error {
	var gone bool
	err := tx.QueryRow(ctx, `SELECT `+notMoved+` AND paid_amount IS NULL FROM transfers WHERE merchant_tx_ref = $1`, ref).Scan(&gone)
	switch {
	case err != nil:
		return pg.OrNone(err, nil)
	case gone:
		return ErrRefunded
	}
	return errMade
}

// byPolicy returns the sum of a refund by policy: what is held of the payment, less the expected
// fee if the tenant bears it.
func (s *Service) byPolicy(ctx context.Context, tx pg.Tx, a *acceptance, held *ledger.PolicyHold, left money.Amount, bearsFee bool) (money.Amount, error) {
	if held == nil || held.Source != ledger.HeldForRefund {
		return money.Zero, errHoldEnded
	}
	if err := madeByPolicy(ctx, tx, a.MerchantTxRef); err != nil {
		return money.Zero, err
	}
	if a.amount = held.Amount; left.Cmp(a.amount) < 0 {
		a.amount = left
	}
	if s.reserve(a, bearsFee); a.amount.Cmp(a.reserved) <= 0 {
		return money.Zero, errNoMore
	}
	return a.amount.Sub(a.reserved), nil
}

// decline leaves the decision about a payment that cannot be refunded to the tenant: it stays held
// until the tenant releases it. What was refunded by hand is no longer held.
func (s *Service) decline(ctx context.Context, h ledger.PolicyHold, why error) error {
	failpoint.At("policy/before-decline-commit")
	err := pg.InTx(ctx, s.Pool, func(tx pg.Tx) error {
		now := s.Clock.Now()
		if err := ledger.LockAvailable(ctx, tx, now, h.AccountID); err != nil {
			return err
		}
		held, err := ledger.FindPolicyHold(ctx, tx, h.EntryID)
		if err != nil || held == nil || held.Source != ledger.HeldForRefund {
			return err
		}
		held.Policy = ledger.Policy{Source: ledger.HeldByPolicy, Reason: ledger.NotRefunded + why.Error()}
		if errors.Is(why, ErrRefunded) {
			held.Amount = money.Zero
		}
		return ledger.SetPolicyHold(ctx, tx, now, *held)
	})
	failpoint.At("policy/after-decline-commit")
	if err == nil {
		s.Log.WarnContext(ctx, "an account's policy refunds a payment that cannot be refunded: it stays held until the tenant decides",
			slog.String("alert", "policy_refund_declined"), slog.String("entry", h.EntryID.String()), slog.String("account", h.AccountID.String()), slog.Any("why", why))
	}
	return err
}

// before is what has left so far by the transfer's own debit.
func (c chargedStep) before() money.Amount {
	if c.Status == Failed || c.Status == Refunded {
		return money.Zero
	}
	return c.Paid
}

// comesBack returns what a step of a refund by policy returns to the account and must be held
// again; below zero: what is no longer held. It counts the part of its own debit that has not left,
// and the part of the reserved fee that the bank did not charge; any further charge took other
// money of the account. Once the whole refund has left, the unused part of the fee is free.
func (c chargedStep) comesBack(reserved money.Amount) money.Amount {
	was := money.Sum(&c.tenantPart.reserved, &c.tenantPart.fee, &c.tenantPart.taxes)
	is := money.Sum(&c.plan.tenantPart.reserved, &c.plan.tenantPart.fee, &c.plan.tenantPart.taxes)
	for _, want := range []money.Amount{c.plan.wantFee, c.plan.wantTaxes} {
		if want.Sign() < 0 {
			is = is.Add(want)
		}
	}
	kept := func(gone, borne money.Amount) money.Amount {
		if gone.Cmp(c.Amount) >= 0 {
			return money.Zero
		}
		return c.Amount.Sub(gone).Add(reserved.Left(borne))
	}
	back := kept(c.gone, is).Sub(kept(c.before(), was))
	if posted := c.before().Sub(c.gone).Add(was).Sub(is); posted.Cmp(back) < 0 {
		return posted // some of it was free before
	}
	return back
}

// holdAgain holds what comes back from refunds of payments that a policy holds or has held, in
// addition to what is still held of them, also if they were posted again since, unless they have
// left the balance. Nothing that was released is held again. The balances of the accounts are
// locked, and the money that came back is posted already, or will be in this transaction.
func holdAgain(ctx context.Context, tx pg.Tx, now time.Time, all []chargedStep) error {
	for _, c := range all {
		if c.refundOf == nil || c.leavesWhole() || c.to == c.Status && c.gone.Equal(c.before()) && c.plan.release == "" && c.plan.wantFee.Sign() == 0 && c.plan.wantTaxes.Sign() == 0 {
			continue
		}
		var reserved, most money.Amount
		var ever bool
		h := ledger.PolicyHold{AccountID: c.AccountID}
		err := tx.QueryRow(ctx, holdAgainSQL, *c.refundOf, reservedGroup(c.ID), c.ID).Scan(&h.EntryID, &h.Amount, &h.Source, &h.Reason, &reserved, &most, &ever)
		switch {
		case pg.IsNoRows(err): // it has left the balance
			continue
		case err != nil:
			return err
		}
		back := c.comesBack(reserved)
		if back.Sign() == 0 || !c.byPolicy && !ever {
			continue
		}
		limited := money.Zero // a limit holds it, since it was released
		if h.Source == ledger.HeldByLimit {
			limited = h.Amount
		}
		held := h.Amount.Sub(limited).Add(back)
		if most = most.Sub(c.gone); held.Cmp(most) > 0 {
			held = most
		}
		if held.Sign() < 0 {
			held = money.Zero
		}
		if held = held.Add(limited); held.Equal(h.Amount) {
			continue
		}
		switch h.Amount = held; {
		case h.Source == ledger.HeldForRefund && !c.byPolicy: // the policy refunds this too
		case c.why != "":
			h.Policy = ledger.Policy{Source: ledger.HeldByPolicy, Reason: ledger.NotRefunded + c.why}
		case h.Source != ledger.HeldByPolicy && h.Source != ledger.HeldForRefund:
			h.Policy = ledger.Policy{Source: ledger.HeldByPolicy, Reason: ledger.NotRefunded + reasonFeeBack}
		default:
			h.Source = ledger.HeldByPolicy
		}
		if err := ledger.SetPolicyHold(ctx, tx, now, h); err != nil {
			return err
		}
	}
	return nil
}

// leavesWhole reports whether a refund that the tenant has made has left as a whole, before a step
// and after it: then it takes nothing from the hold, and returns nothing to it.
func (c chargedStep) leavesWhole() bool {
	return !c.byPolicy && c.gone.Cmp(c.Amount) >= 0 && c.before().Cmp(c.Amount) >= 0
}

// holdAgainSQL reads, of the payment of a refund ($1, $3), by the credit that is in the balance:
// its open hold, the fee that was reserved for the refund, what the payment has brought less its
// other refunds and what was released of it (not of another sum, before it was corrected), and
// whether a policy has ever held it.
var holdAgainSQL = `
	SELECT s.id, coalesce(h.amount, 0), coalesce(h.source, ''), coalesce(h.reason, ''), coalesce((
			SELECT f.amount FROM ledger_entries f WHERE f.transaction_group_id = ANY(ARRAY[$2::uuid]) AND f.reversal_of IS NULL), 0),
		` + ledger.Brought("s") + ` - p.released - coalesce((
			SELECT sum(coalesce(o.paid_amount, o.amount)) FROM transfers o WHERE o.refund_of = ANY(payment_entries(e)) AND o.id <> $3 AND o.` + notMoved + `), 0), p.ever
	FROM ledger_entries e JOIN ledger_entries s ON s.id = ANY(payment_entries(e)) AND s.status IN ('provisional', 'confirmed')
	CROSS JOIN LATERAL (
		SELECT coalesce(sum(p.amount) FILTER (WHERE p.status = 'released' AND NOT p.left_with AND l.amount = s.amount), 0) AS released, count(*) > 0 AS ever
		FROM holds p JOIN ledger_entries l ON l.id = ANY(ARRAY[p.entry_id]) WHERE p.entry_id = ANY(payment_entries(e)) AND p.source IN ('policy', 'refund')) p
	LEFT JOIN holds h ON h.entry_id = ANY(ARRAY[s.id]) AND h.status = 'open' WHERE e.id = $1`
