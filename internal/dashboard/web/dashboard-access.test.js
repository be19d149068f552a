// The dashboard’s pages of people, keys and endpoints, and what holds on every page.
// Run by `make test-web` beside the other files, each with a service and a browser of its own.

import './passwords.js';
import './members.js';
import './access.js';
import './keys.js';
import './endpoints.js';
import './testmode.js';
import './everywhere.js';
