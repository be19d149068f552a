// Beneficiaries: the bank accounts that the tenant pays out to, under labels of its own.

import { get, patch, post, remove, segment } from './api.js';
import { asked, confirmed } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { proofFields } from './proof.js';
import { list, read } from './table.js';
import { announce, badge, button, card, dim, empty, pageHead, refreshButton, region, time } from './ui.js';

const labelField = (value) => ({ name: 'label', label: 'Label', value, maxlength: 100, autocomplete: 'off', hint: 'Your own name for it. Only your organisation sees it.' });

// beneficiaries lists them, newest first. Finance saves, renames and removes them here, and the owner exempts them from approval.
export function beneficiaries(_, __, session) {
  const may = session.may('finance');
  const found = list({
    caption: 'Beneficiaries', noun: 'beneficiary', nouns: 'beneficiaries',
    columns: [
      { name: 'Beneficiary', head: true, loose: true, value: (b) => [b.label || b.accountName, b.label && h('div', { class: 'dim' }, b.accountName)] },
      { name: 'Account', value: (b) => [h('span', { class: 'figures' }, b.accountNumber), h('div', { class: 'dim' }, b.bankName || 'bank ' + b.bankCode)] },
      { name: 'Approval', value: (b) => (b.exempt ? badge('exempt') : dim('By the policy')) },
      { name: 'Saved', value: (b) => [time(b.savedAt), h('div', { class: 'dim reference' }, b.savedBy.replace(/^session:/, '').replace(/^key:.*/, 'an API key'))] },
      ...(may ? [{ name: 'Change', value: (b) => changes(b, session, () => found.reload()) }] : []),
    ],
    fetchPage: (range) => read('/auth/beneficiaries', 'beneficiaries', range),
    none: () => empty('No beneficiaries yet.'),
  });
  return {
    title: 'Beneficiaries',
    nodes: [
      pageHead('Beneficiaries', { lead: 'Bank accounts that you pay out to, with the holder that the bank has named.', actions: refreshButton(found.reload) }),
      may && card('Save a beneficiary', region(() => get('/auth/transfers/banks'), ({ banks }) => saving(banks, () => found.reload())).box),
      found.box,
    ],
  };
}

// saving asks the bank for the holder, shows the name, and saves the account once that is agreed to.
function saving(banks, reload) {
  const f = form([
    { name: 'bankCode', label: 'Bank', required: true, options: [['', 'Choose a bank'], ...banks.map((b) => [b.Code, b.Name])] },
    { name: 'accountNumber', label: 'Account number', required: true, inputmode: 'numeric', pattern: ' *[0-9]{10} *', title: 'Ten digits', autocomplete: 'off' },
    labelField(''),
  ], 'Find the holder…', async (v) => {
    const { AccountName: name } = await post('/auth/transfers/lookup', { bankCode: v.bankCode, accountNumber: v.accountNumber });
    const bank = banks.find((b) => b.Code === v.bankCode).Name;
    let saved;
    const yes = await confirmed({
      title: `Save ${name}?`, text: `The bank names ${name} as the holder of account ${v.accountNumber} at ${bank}.`, label: 'Save', danger: false,
      act: async () => { saved = await post('/auth/beneficiaries', v); },
    });
    if (!yes) return;
    f.reset();
    await reload();
    announce(saved.label === v.label ? `${saved.accountName} is saved.` : `It was saved before${saved.label && `, as ${saved.label}`}.`);
  });
  return f;
}

// changes are the buttons of a beneficiary's row.
function changes(b, session, reload) {
  const path = '/auth/beneficiaries/' + segment(b.id);
  const who = b.label || b.accountName;
  const after = async (text) => {
    await reload();
    announce(text);
    document.querySelector('h1').focus();
  };
  const small = (label, act, kind = '') => button(label, act, { kind: 'small ' + kind, describe: `${label} ${who}` });
  return h('div', { class: 'actions' },
    h('a', { class: 'button small', href: `#/payout?beneficiary=${segment(b.id)}`, 'aria-label': `Pay out to ${who}` }, 'Pay out'),
    small('Rename…', async () => {
      const yes = await asked({ title: `Rename ${who}?`, text: 'Only the label changes.', label: 'Rename', fields: [labelField(b.label)], act: (v) => patch(path, v) });
      if (yes) await after('The beneficiary was renamed.');
    }),
    session.may('owner') && small(b.exempt ? 'Require approval…' : 'Exempt…', async () => {
      const yes = await (b.exempt ? confirmed : asked)({
        fields: proofFields(session), title: b.exempt ? `Require approval for ${who} again?` : `Exempt ${who} from approval?`, label: b.exempt ? 'Require approval' : 'Exempt', danger: !b.exempt,
        text: b.exempt ? 'Payouts to this account need approval again where the policy says so.'
          : `Payouts of any amount to account ${b.accountNumber} will no longer need approval. Those that already wait for approval keep waiting.`,
        act: (proof) => post(path + '/exempt', { exempt: !b.exempt, ...proof }),
      });
      if (yes) await after(b.exempt ? `Payouts to ${who} need approval again.` : `Payouts to ${who} need no approval now.`);
    }),
    small('Remove…', async () => {
      const yes = await confirmed({ title: `Remove ${who}?`, text: 'Payouts that were accepted continue. If you save the account again, the bank is asked for its holder again.', label: 'Remove', act: () => remove(path) });
      if (yes) await after(`${who} was removed.`);
    }, 'danger'));
}
