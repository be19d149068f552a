// Run by `make test-web`: one service and one browser for all of it.

import './flows.js';
import './held.js';
import './payments.js';
import './search.js';
import './many.js';
import './files.js';
import './opened.js';
import './passwords.js';
import './members.js';
import './access.js';
import './keys.js';
import './approvals.js';
import './beneficiaries.js';
import './payout.js';
import './refund.js';
import './endpoints.js';
import './testmode.js';
import './everywhere.js';
import './reference.js';
