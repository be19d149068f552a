// Money of an account that stands still: held here, and released.

import { segment } from './api.js';
import { asked, confirmed } from './dialog.js';
import { naira } from './format.js';
import { once, sum, sumField } from './proof.js';
import { announce, button } from './ui.js';

// holdButton holds money of an account.
export function holdButton(path, a, reload) {
  return button('Hold money…', async () => {
    const yes = await asked({
      title: 'Hold money?', label: 'Hold', text: `It stays in the balance of ${a.AccountRef}, and no payout can use it until it is released.`,
      fields: [
        sumField, { name: 'reason', label: 'Reason', required: true, maxlength: 140, autocomplete: 'off', hint: 'Kept with the hold.' },
        { name: 'until', label: 'Last day', type: 'date', hint: 'It ends by itself at the end of that day in Lagos. Leave empty to hold until you release it.' },
      ],
      act: (v) => once(path + '/holds', { amount: sum(v.amount), reason: v.reason, ...(v.until && { until: v.until + 'T23:59:59+01:00' }) }),
    });
    if (yes) await done(reload, 'The money is held.');
  });
}

// releaseButton releases a hold. Those of a limit or a recall are not the tenant's to end.
export function releaseButton(x, reload) {
  if (['limit', 'recall'].includes(x.source)) return null;
  return button('Release…', async () => {
    const back = x.source === 'refund' ? ' You then keep it; it does not go back to its sender.' : '';
    const yes = await confirmed({
      title: `Release ${naira(x.amount)}?`, text: `This hold ends. Payouts can use the money unless the bank has not confirmed it yet or may have taken it back, or a limit holds it.${back} Why it is held: ${x.reason}`, label: 'Release', danger: false,
      act: () => once(`/auth/holds/${segment(x.id)}/release`, {}),
    });
    if (yes) await done(reload, `The hold of ${naira(x.amount)} is released.`);
  }, { kind: 'small', describe: `Release ${naira(x.amount)}: ${x.reason}` });
}

async function done(reload, text) {
  await reload();
  announce(text);
  document.querySelector('h1').focus();
}
