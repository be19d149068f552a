// The dashboard’s pages of what comes in and is there.
// Run by `make test-web` beside the other files, each with a service and a browser of its own.

import './flows.js';
import './held.js';
import './payments.js';
import './search.js';
import './many.js';
import './files.js';
import './opened.js';
import './reference.js';
