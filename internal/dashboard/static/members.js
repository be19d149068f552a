// Who belongs to the tenant, and what each may do.

import { post, segment } from './api.js';
import { asked, confirmed } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { moment } from './format.js';
import { proofField } from './proof.js';
import { list, read } from './table.js';
import { announce, badge, button, card, empty, pageHead, refreshButton, time } from './ui.js';

// roles are their names. What each may do is for the service to say; the pages show no button that it would refuse.
export const roles = { owner: 'Owner', finance: 'Finance', developer: 'Developer', viewer: 'Viewer' };

export const rights = {
  owner: 'may do everything.', finance: 'decides about customers and money.', developer: 'manages API keys and webhooks.', viewer: 'reads, and changes nothing.',
};

const given = ['finance', 'developer', 'viewer']; // by the owner; the ownership is handed over

const roleField = (value) => ({
  name: 'role', label: 'Role', options: given.map((r) => [r, roles[r]]), value, hint: given.map((r) => `${roles[r]} ${rights[r]}`).join(' '),
});

// members lists them, newest first. The owner changes them here.
export function members(_, __, session) {
  const owner = session.may('owner');
  const found = list({
    caption: 'Members', noun: 'member',
    columns: [
      { name: 'Member', head: true, loose: true, value: (m) => [m.name || m.email, m.id === session.member.id && ' (you)', m.name && h('div', { class: 'dim reference' }, m.email)] },
      { name: 'Role', value: (m) => roles[m.role] },
      { name: 'Status', value: (m) => [badge(m.status), m.status === 'invited' && h('div', { class: 'dim reference' }, 'Until ', moment(m.expiresAt))] },
      { name: 'Two-factor', value: (m) => (m.status === 'active' ? (m.totp ? 'On' : 'Off') : '—') },
      { name: 'Since', value: (m) => time(m.removedAt ?? m.joinedAt ?? m.invitedAt) },
      ...(owner ? [{ name: 'Change', value: (m) => changes(m, session, () => found.reload()) }] : []),
    ],
    fetchPage: (range) => read('/auth/members', 'members', range),
    none: () => empty('No members.'),
  });
  return {
    title: 'Members',
    nodes: [
      pageHead('Members', { lead: owner ? 'Who may log in, and what each may do.' : 'Who may log in. The owner invites and removes members.', actions: refreshButton(found.reload) }),
      owner && card('Invite', invite(() => found.reload())),
      found.box,
      owner && card('Two-factor authentication', required(session)),
    ],
  };
}

function invite(reload) {
  const f = form([
    { name: 'email', label: 'E-mail', type: 'email', required: true, maxlength: 254, autocomplete: 'off', hint: 'The person gets a code by e-mail, and chooses a password.' },
    roleField('finance'),
  ], 'Send invitation', async (v) => {
    await post('/auth/members', v);
    f.reset();
    await reload();
    announce(`Invitation sent to ${v.email}. It is valid for seven days.`);
  });
  return f;
}

// changes are the buttons of a member's row.
function changes(m, session, reload) {
  const path = '/auth/members/' + segment(m.id);
  const who = m.name || m.email;
  const after = async (text) => {
    await reload();
    announce(text);
    document.querySelector('h1').focus();
  };
  const small = (label, act, kind = '') => button(label, act, { kind: 'small ' + kind, describe: `${label} ${who}` });
  if (m.status === 'removed' || m.role === 'owner') return '—';
  const remove = (label, text, done) => small(label, async () => {
    const yes = await confirmed({ title: `${label.replace('…', '')} ${m.status === 'active' ? '' : 'the invitation of '}${who}?`, text, label: label.replace('…', ''), act: () => post(path + '/remove') });
    if (yes) await after(done);
  }, 'danger');
  if (m.status !== 'active') {
    return h('div', { class: 'actions' }, small('Send again', async () => {
      await post('/auth/members', { email: m.email, role: m.role });
      await after(`Another invitation was sent to ${m.email}. The code of the first no longer works.`);
    }), remove('Withdraw…', 'The code in the e-mail stops working.', `The invitation of ${who} was withdrawn.`));
  }
  return h('div', { class: 'actions' },
    small('Change role…', async () => {
      const yes = await asked({
        title: `Change the role of ${who}?`, text: 'It applies to all open sessions at once, and the member is notified by e-mail.', label: 'Change role', fields: [roleField(m.role)],
        act: ({ role }) => post(path + '/role', { role }),
      });
      if (yes) await after(`The role of ${who} was changed.`);
    }),
    small('Make owner…', async () => {
      const yes = await asked({
        title: `Hand the account over to ${who}?`, label: 'Hand over', danger: true,
        text: `${who} then owns ${session.tenant.name}, and may remove you. Your role becomes finance. Only the new owner can undo this.`,
        fields: [proofField(session)],
        act: (v) => post(path + '/hand-over', v),
      });
      if (!yes) return;
      await session.signedIn('/members'); // with another role
      announce(`${who} owns the account now.`);
    }),
    remove('Remove…', 'All sessions of the member end at once.', `${who} is no longer a member.`));
}

// required says whether the owner and finance need a second factor, and lets the owner decide it.
function required(session) {
  const place = h('div', { class: 'stack' });
  const shown = () => {
    const now = session.member.totpRequired;
    place.replaceChildren(
      h('p', null, now ? 'The owner and finance need a second factor to log in.' : 'Each member decides whether to use a second factor.'),
      h('div', { class: 'actions' }, button(now ? 'Make it optional…' : 'Require it for the owner and finance…', async () => {
        const yes = await confirmed({
          title: now ? 'Make the second factor optional?' : 'Require a second factor?', danger: now, label: now ? 'Make it optional' : 'Require it',
          text: now ? 'Anyone who has one can then turn it off.'
            : `Owner and finance without one can do nothing else until they have set one up${session.member.totp ? '' : ': that includes you'}. API keys keep working.`,
          act: () => post('/auth/totp-required', { required: !now }),
        });
        if (!yes) return;
        await session.changed();
        shown();
        announce(now ? 'A second factor is no longer required.' : 'A second factor is required now.');
        document.querySelector('h1').focus();
      })));
  };
  shown();
  return place;
}
