// Payouts that members approve: which need it, and the decision about one.

import { get, post } from './api.js';
import { confirmed } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { naira, plural } from './format.js';
import { proofFields, sum, sumField } from './proof.js';
import { table } from './table.js';
import { announce, badge, button, card, facts, region, sentence, time } from './ui.js';

// approval shows how far the approval of a transfer is, and lets it be decided by who may. It shows nothing of one that needs none.
export function approval(t, a, path, session, reload) {
  if (a.approvalsNeeded === 0) return null;
  const given = a.decisions.filter((d) => d.decision === 'approve').length;
  return card('Approval',
    facts([
      ['State', a.awaiting ? badge('awaiting_approval') : badge(a.approvedAt ? 'approved' : a.decisions.some((d) => d.decision === 'reject') ? 'rejected' : 'not_approved')],
      ['Approvals', `${given} of ${a.approvalsNeeded}`], ['Asked for by', a.madeBy ? a.madeByEmail : 'An API key'], ['Waits until', a.expiresAt && time(a.expiresAt)], ['Approved', a.approvedAt && time(a.approvedAt)],
    ]),
    a.decisions.length > 0 && h('div', { class: 'table' }, table('Decisions', [
      { name: 'Member', head: true, loose: true, value: (d) => d.email || 'Your own system' }, { name: 'Decision', value: (d) => badge(d.decision === 'approve' ? 'approved' : 'rejected') },
      { name: 'When', value: (d) => time(d.decidedAt) },
    ], a.decisions)),
    a.awaiting && decide(t, a, path, session, reload));
}

function decide(t, a, path, session, reload) {
  const own = a.decisions.find((d) => d.email === session.member.email);
  const why = !session.may('finance') ? 'Only the owner and members with the role finance can decide.'
    : own ? `You have ${own.decision === 'approve' ? 'approved' : 'rejected'} it. A decision cannot be taken back.`
      : a.madeByEmail === session.member.email ? 'You asked for this transfer: another member decides.' : '';
  if (why) return h('p', { class: 'dim' }, why);
  const act = (verb, text, done, danger) => button(verb + '…', async () => {
    const [who, now] = await Promise.all([holder(t), get(path + '/approval')]); // which others may have approved since the page was drawn
    const what = `${naira(t.amount)} to account ${t.accountNumber} at ${t.bankName || 'bank ' + t.bankCode}. ${who}`;
    const yes = await confirmed({ title: `${verb} this payout?`, text: `${what} ${text(now)}`, label: verb, danger, act: () => post(`${path}/${verb.toLowerCase()}`) });
    if (!yes) return;
    await reload();
    announce(done);
    document.querySelector('h1').focus();
  }, { kind: danger ? 'danger' : 'main' });
  return h('div', { class: 'actions' },
    act('Approve', (now) => (now.approvalsNeeded - now.decisions.length > 1 ? 'Others must approve it too. It is paid after the last approval, and this cannot be undone.' : 'It is paid after that, and this cannot be undone.'), 'The payout was approved.', false),
    act('Reject', () => 'It fails, and the money is back in the account.', 'The payout was rejected.', true));
}

// holder says who the bank says is paid: a payout that waits has not been named to us yet.
async function holder(t) {
  try {
    const { AccountName: name } = await post('/auth/transfers/lookup', { bankCode: t.bankCode, accountNumber: t.accountNumber });
    return `The bank names ${name} as its holder.`;
  } catch (e) {
    return `The bank did not name its holder. ${sentence(e.message)}`;
  }
}

// policy says which payouts need approval, and lets the owner decide that.
export function policy(session) {
  return region(() => get('/auth/payout-policy'), (p) => {
    const place = h('div', { class: 'stack' });
    const shown = (now) => place.replaceChildren(...said(now), ...(session.may('owner') ? [change(now, session, shown)] : []));
    shown(p);
    return place;
  }, { rows: 2 }).box;
}

function said(p) {
  if (p.approvals === 0) return [h('p', null, 'No payout needs approval.')];
  const above = [p.threshold && `above ${naira(p.threshold)}`, p.dayThreshold && `that take the day’s payouts above ${naira(p.dayThreshold)}`].filter(Boolean).join(', and those ');
  return [
    h('p', null, `Payouts ${above} need ${plural(p.approvals, 'approval')} by the owner or members with the role finance. Without them they fail after 24 hours.`),
    p.beneficiaryWaitHours > 0 && h('p', null, `Payouts above ${naira(p.threshold)} may go only to beneficiaries that were saved at least ${plural(p.beneficiaryWaitHours, 'hour')} ago.`),
    p.warning && h('p', { class: 'caution' }, `Not enough members: payouts need ${plural(p.approvals, 'approval')}, and ${p.approvers === 1 ? '1 member' : p.approvers + ' members'} may approve${p.hook ? ', beside your own system' : ''}. Without more members they fail after 24 hours.`),
    p.hook && h('p', null, 'Your own system is asked too: ', h('span', { class: 'reference' }, p.hook)),
  ].filter(Boolean);
}

function change(p, session, shown) {
  const field = (name, label, value, more) => ({ ...sumField, name, label, value: value ? naira(value).slice(1) : '', required: false, ...more });
  return form([
    { name: 'approvals', label: 'Approvals', type: 'number', min: 0, max: 10, required: true, value: String(p.approvals), hint: '0: no payout needs approval.' },
    field('threshold', 'For a payout above (₦)', p.threshold, { placeholder: '500,000' }),
    field('dayThreshold', 'For a day’s payouts above (₦)', p.dayThreshold, { hint: 'All payouts of a day in Lagos count. Leave empty for none.' }),
    { name: 'wait', label: 'New beneficiaries wait (hours)', type: 'number', min: 0, max: 720, required: true, value: String(p.beneficiaryWaitHours), hint: 'How long a beneficiary must have been saved before a payout above the first sum may go to it. 0: such payouts may go to any account.' },
    ...proofFields(session),
  ], 'Save policy', async ({ approvals, threshold, dayThreshold, wait, ...proof }) => {
    // The whole policy is replaced, so not one that is not on the page. The hook is set by the API, and stays while there is a policy.
    const now = await get('/auth/payout-policy');
    if (['approvals', 'threshold', 'dayThreshold', 'beneficiaryWaitHours'].some((name) => now[name] !== p[name])) {
      shown(now);
      return announce('Not saved: the policy was changed in the meantime. This page now shows the current one.');
    }
    shown(await post('/auth/payout-policy', {
      approvals: Number(approvals), threshold: threshold ? sum(threshold) : null, dayThreshold: dayThreshold ? sum(dayThreshold) : null, hook: Number(approvals) > 0 ? now.hook : null, beneficiaryWaitHours: Number(wait), ...proof,
    }));
    announce('Policy saved. It applies to payouts from now on.');
  });
}
