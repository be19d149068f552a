// A payment in test mode: who pays how much, and what goes wrong.

import { mode, post } from './api.js';
import { h } from './dom.js';
import { form } from './form.js';
import { naira } from './format.js';
import { sum, sumField } from './proof.js';
import { announce, card } from './ui.js';

// faults are those of the service (a test compares them).
export const faults = {
  webhook_lost: 'The bank’s event is lost', webhook_late: 'The event comes 20 seconds late', webhook_duplicate: 'The event comes twice',
  amount_differs: 'The bank’s record has another amount', failed_at_bank: 'The bank’s record says that it failed',
  pending_at_bank: 'The record is pending for 20 seconds', recalled: 'The bank takes it back after 20 seconds',
};

// testPayment is the form, on an account's page; reload shows what has come. Null outside test mode.
export function testPayment(id, session, reload) {
  if (!mode.test || !session.may('developer')) return null;
  return card('Receive a test payment', h('p', { class: 'dim' }, 'Somebody pays into this account at the simulated bank. The payment is confirmed after some seconds.'), form([
    { ...sumField, value: '5,000.00' },
    { name: 'sender', label: 'Sender', maxlength: 140, autocomplete: 'off', placeholder: 'TEST SENDER' },
    { name: 'fault', label: 'What goes wrong', options: [['', 'Nothing'], ...Object.entries(faults)] },
  ], 'Receive payment', async ({ amount, sender, fault }) => {
    const paid = await post('/auth/test/payments', { accountRef: id, amount: sum(amount), sender: { name: sender }, fault });
    announce(`${naira(paid.amount)} was paid. Its event is on its way.`);
    for (const after of [500, 1500, 4000, 8000, 15000]) setTimeout(reload, after);
  }));
}
