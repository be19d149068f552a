// The dashboard’s pages of what goes out.
// Run by `make test-web` beside the other files, each with a service and a browser of its own.

import './payout.js';
import './refund.js';
import './approvals.js';
import './beneficiaries.js';
