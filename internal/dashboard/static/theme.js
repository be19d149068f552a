// Before anything is drawn: the theme that was chosen here, if one was. Without a choice the system's counts.
'use strict';
try {
  const chosen = localStorage.getItem('ajo-theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
  // storage is closed: the system's theme it is
}
