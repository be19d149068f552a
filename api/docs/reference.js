// Starts Swagger UI on this service's own document: operations grouped by who makes the calls, a
// search over all of them, and requests that can be tried with a key that is typed in and never
// stored.
'use strict';

const dark = matchMedia('(prefers-color-scheme: dark)');

// theme follows what was chosen in the dashboard, else the system.
function theme() {
  let chosen = null;
  try {
    chosen = localStorage.getItem('ajo-theme');
  } catch {
    // storage is closed: the system's theme it is
  }
  document.documentElement.classList.toggle('dark-mode', chosen ? chosen === 'dark' : dark.matches);
}
theme();
dark.addEventListener('change', theme);

// found keeps the operations that have the words anywhere in their path, name or description.
function found(tags, words) {
  const has = (text) => String(text ?? '').toLowerCase().includes(words.toLowerCase());
  return tags.map((tag, name) => (has(name) ? tag : tag.update('operations', (all) => all.filter(
    (o) => has(o.get('method') + ' ' + o.get('path')) || ['summary', 'operationId', 'description'].some((k) => has(o.getIn(['operation', k])))))))
    .filter((tag) => tag.get('operations').size > 0);
}

// headed puts the name of a group of tags (x-tagGroups) above its first tag that is shown.
function headed(Tag, { React, specSelectors }) {
  return (props) => {
    const groups = specSelectors.specJson().get('x-tagGroups');
    const mine = groups?.find((g) => g.get('tags').includes(props.tag));
    const shown = specSelectors.taggedOperations().keySeq().find((tag) => mine?.get('tags').includes(tag));
    return React.createElement(React.Fragment, null,
      shown === props.tag && React.createElement('h2', { className: 'audience' }, mine.get('name')), React.createElement(Tag, props));
  };
}

SwaggerUIBundle({
  url: '/openapi.json', domNode: document.getElementById('reference'), validatorUrl: null, queryConfigEnabled: false,
  deepLinking: true, filter: true, tryItOutEnabled: true, persistAuthorization: false, displayRequestDuration: true,
  docExpansion: 'list', defaultModelsExpandDepth: 0,
  plugins: [() => ({ fn: { opsFilter: found }, wrapComponents: {
    OperationTag: headed,
    DeepLink: (_, { React }) => ({ text }) => React.createElement('span', null, text), // no link within a button
    CloseIcon: (_, { React }) => () => React.createElement('span', { role: 'img', 'aria-label': 'Close' }, '✕'),
    TextArea: (Text, { React }) => (props) => React.createElement(Text, { 'aria-label': 'Body', ...props }),
  } })],
});
