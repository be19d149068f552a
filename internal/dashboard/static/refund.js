// Paying a payment back, whole or in part, to where the bank says it came from.

import { segment } from './api.js';
import { asked } from './dialog.js';
import { kobo, naira } from './format.js';
import { once, proofFields, sum, sumField } from './proof.js';
import { to } from './route.js';
import { announce, button } from './ui.js';

// left is what can still be refunded of a payment, in kobo: refunds that failed or came back do not count.
const left = (p) => kobo(p.amount) - kobo(p.refunded) - kobo(p.beingRefunded);

// text is an amount in kobo as the API writes it.
const text = (k) => `${k / 100n}.${String(k % 100n).padStart(2, '0')}`;

// gone is what of a payment went back by refunds, or is on its way; empty: nothing.
export function gone(p) {
  const back = kobo(p.amount) - left(p);
  return back > 0n ? text(back) : '';
}

// refundButton refunds a payment; null where that is none that can be. What the bank may have taken back is not refunded until that is clear.
export function refundButton(p, session) {
  const rest = left(p);
  const recalled = p.timeline.some((s) => s.step === 'recalled' && ['open', 'watched'].includes(s.outcome));
  if (p.status !== 'confirmed' || rest <= 0n || recalled || !session.may('finance')) return null;
  return button('Refund…', async () => {
    const back = [p.senderName, p.senderAccount && `account ${p.senderAccount}`, p.senderBank].filter(Boolean).join(', ');
    let accepted;
    const yes = await asked({
      title: 'Refund this payment?', label: 'Refund', danger: true,
      text: `It leaves ${p.accountRef} and goes back to ${back || 'the sender'}. The bank must name the payer as the holder there. ${naira(text(rest))} of ${naira(p.amount)} can be refunded. Any fee that you bear for payouts is debited too. Once the bank has paid it, it cannot be taken back.`,
      fields: [{ ...sumField, value: text(rest) }, ...proofFields(session)],
      act: async ({ amount, ...proof }) => { accepted = await once(`/auth/payments/${segment(p.id)}/refund`, { amount: sum(amount) }, proof); },
    });
    if (!yes) return;
    location.hash = to`/transfers/${accepted.answer.merchantTxRef}`;
    announce(accepted.again ? 'This refund was already accepted; it was not made again.' : 'The refund was accepted.');
  });
}
