// Run by `make test-web`: one service and one browser for all of it.

import './flows.js';
import './held.js';
import './passwords.js';
import './members.js';
import './everywhere.js';
import './reference.js';
