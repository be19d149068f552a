package invariant

import "ajo/internal/fee"

// chargeGroup is the transaction group of what the platform takes of a payment or a payout, an id
// as SQL: [ledger.GroupOf].
func chargeGroup(on, of string) string {
	return `event_key('platform_fee:` + on + `:' || ` + of + `)`
}

// vatAt is the rate of VAT on the platform's fees at a time, as SQL.
func vatAt(at string) string {
	return `coalesce((SELECT v.percent FROM prices v WHERE v.id = ` + fee.InForce(fee.List, "'vat'", at) + `), 0)`
}

// priceOf is the fee of a sum by a row p of prices, as SQL.
func priceOf(sum string) string {
	return `least(greatest(round(` + sum + ` * p.percent / 100, 2) + p.flat, p.minimum), p.cap)`
}

// paymentFeesSQL: each payment has the price that held when it was posted, if there was one, and
// the fee and the VAT that this makes of it, with its own status; none where that is nothing. Price
// and VAT were read before the payment was dated, which can make it an hour later (see below). Of a
// payment that was posted again after a refund, the fee may be less.
var paymentFeesSQL = `
		SELECT c.id::text, format('its price is %s; %s held then', coalesce(c.price_id::text, 'none'), coalesce(` + fee.InForce("c.tenant_id", "'payment'", "c.created_at") + `::text, 'none'))
		FROM {entries} c
		WHERE EXISTS (SELECT FROM prices) AND c.direction = 'credit' AND c.kind = '' AND c.reversal_of IS NULL
			AND c.price_id IS DISTINCT FROM ` + fee.InForce("c.tenant_id", "'payment'", "c.created_at") + `
			AND c.price_id IS DISTINCT FROM ` + fee.InForce("c.tenant_id", "'payment'", "c.created_at - interval '1 hour'") + `
		UNION ALL
		SELECT c.id::text, format('%s of %s: its fee should be %s with %s of VAT, and is %s (%s) with %s (%s)', c.status, c.amount, w.fee, w.vat,
			coalesce(f.amount, 0), coalesce(f.status, 'none'), coalesce(t.amount, 0), coalesce(t.status, 'none'))
		FROM {entries} c JOIN prices p ON p.id = ANY(ARRAY[c.price_id])
		LEFT JOIN ledger_entries f ON f.transaction_group_id = ANY(ARRAY[` + chargeGroup("platform_revenue", "c.transaction_group_id") + `]) AND f.direction = 'debit' AND f.reversal_of IS NULL
		LEFT JOIN ledger_entries t ON t.transaction_group_id = ANY(ARRAY[` + chargeGroup("taxes", "c.transaction_group_id") + `]) AND t.direction = 'debit' AND t.reversal_of IS NULL
		CROSS JOIN LATERAL (SELECT ` + priceOf("(c.amount + c.fee)") + ` AS fee) x
		CROSS JOIN LATERAL (
			SELECT v.fee, v.vat, (coalesce(f.amount, 0), coalesce(t.amount, 0)) = (v.fee, v.vat) AS fits
			FROM unnest(ARRAY[` + vatAt("c.created_at") + `, ` + vatAt("c.created_at - interval '1 hour'") + `]) WITH ORDINALITY AS r (rate, n)
			CROSS JOIN LATERAL (SELECT x.fee + round(x.fee * r.rate / 100, 2) > c.amount AS clamped, round(c.amount * 100 / (100 + r.rate), 2) AS most) y
			CROSS JOIN LATERAL (SELECT CASE WHEN y.clamped THEN y.most ELSE x.fee END AS fee,
				CASE WHEN y.clamped THEN c.amount - y.most ELSE round(x.fee * r.rate / 100, 2) END AS vat) v
			ORDER BY fits DESC, r.n LIMIT 1) w
		WHERE c.price_id IS NOT NULL AND (NOT w.fits AND (coalesce(f.amount, 0) + coalesce(t.amount, 0) >= w.fee + w.vat OR NOT EXISTS (
				SELECT FROM ledger_entries o JOIN transfers r ON r.refund_of = ANY(payment_entries(o)) AND r.refund_of <> o.id WHERE o.id = c.id))
			OR f.id IS NOT NULL AND (f.account_id, f.status, f.kind, f.contra, f.created_at) IS DISTINCT FROM (c.account_id, c.status, 'platform_fee', 'platform_revenue', c.created_at)
			OR t.id IS NOT NULL AND (t.account_id, t.status, t.kind, t.contra, t.created_at) IS DISTINCT FROM (c.account_id, c.status, 'platform_fee', 'taxes', c.created_at))`

// payoutFeesSQL: what the platform takes of a transfer is what the price says that held when it was
// accepted, and its entries have the transfer's end. What went back stands no more. Entries can be
// an hour later than their transfer, where a clock was ahead: none is dated before the account's
// last one (ledger, dated).
var payoutFeesSQL = `
		SELECT t.merchant_tx_ref, format('%s: %s and %s of VAT, its entries have %s and %s; its price says %s and %s', t.status, coalesce(t.platform_fee, 0), coalesce(t.platform_vat, 0),
			coalesce(e.fee, 0), coalesce(e.vat, 0), coalesce(x.fee, 0), coalesce(round(x.fee * x.rate / 100, 2), 0))
		FROM {transfers} t
		LEFT JOIN LATERAL (
			SELECT sum(amount) FILTER (WHERE contra = 'platform_revenue') AS fee, sum(amount) FILTER (WHERE contra = 'taxes') AS vat,
				bool_or(account_id <> t.account_id OR direction <> 'debit' OR NOT created_at BETWEEN t.created_at AND t.created_at + interval '1 hour'
					OR status <> CASE t.status WHEN 'success' THEN 'confirmed' ELSE 'provisional' END) AS other
			FROM ledger_entries WHERE transfer_ref = t.merchant_tx_ref AND kind = 'platform_fee' AND status <> 'reversed') e ON true
		LEFT JOIN LATERAL (
			SELECT ` + priceOf("t.amount") + ` AS fee, ` + vatAt("t.created_at") + ` AS rate FROM prices p WHERE p.id = ` + fee.InForce("t.tenant_id", "'payout'", "t.created_at") + `) x ON true
		WHERE (coalesce(t.platform_fee, 0), coalesce(t.platform_vat, 0)) <> (coalesce(e.fee, 0), coalesce(e.vat, 0)) OR e.other
			OR t.platform_fee IS NOT NULL AND (t.platform_fee, t.platform_vat::numeric) IS DISTINCT FROM (x.fee, round(x.fee * x.rate / 100, 2))
			OR t.platform_fee IS NULL AND t.status = 'pending' AND t.refund_of IS NULL AND x.fee > 0`
