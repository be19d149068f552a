"""Opens a virtual account, waits until it is paid, and pays out what came in. Python 3.9 or later.

AJO_API_KEY=ajo_... python3 docs/examples/python/payout.py customer-1 044 0123456789
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

BASE = os.environ.get("AJO_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("AJO_API_KEY")
DEADLINE = time.monotonic() + 5 * 60


class Refused(Exception):
    """The API says no; asking again would be no use."""


class NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # the key would go along


opener = urllib.request.build_opener(NoRedirects)


def call(method, path, body=None, headers=None):
    """Makes a call, and makes it again while that is of use: over the limit (429), an earlier call that is still running
    (409 with Retry-After), the service's or the bank's own trouble (5xx), no answer. That is safe for what only reads, for opening an
    account, which its reference names, and with an Idempotency-Key."""
    data = None if body is None else json.dumps(body).encode()
    all_headers = {"X-API-Key": KEY, **({"Content-Type": "application/json"} if data else {}), **(headers or {})}
    while True:
        wait = 1
        try:
            request = urllib.request.Request(BASE + path, data, all_headers, method=method)
            with opener.open(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            running = error.code == 409 and "Retry-After" in error.headers
            if error.code != 429 and error.code < 500 and not running:
                raise Refused(f"{error.code}: {error.read().decode()}") from None
            after = error.headers.get("Retry-After") or ""
            wait = int(after) if after.isdecimal() else wait  # a gateway may write a date
        except (OSError, http.client.HTTPException, json.JSONDecodeError, UnicodeDecodeError):  # a gateway's page is no answer
            pass
        if time.monotonic() > DEADLINE:
            sys.exit(f"{method} {path}: no good answer")
        time.sleep(wait)


def main(ref, bank_code, account_number):
    account = urllib.parse.quote(ref, safe="")

    # The same reference gives the same account, so this may run again.
    opened = call("POST", "/v1/accounts", {"externalRef": ref, "name": "Ada Obi"})
    print("pay to", opened["BankAccountNumber"], opened["BankName"], flush=True)

    # A webhook tells of payments as they come (see receive.py); a program that runs once may as well ask.
    amount = "0.00"
    while amount == "0.00":
        time.sleep(1)
        amount = call("GET", f"/v1/accounts/{account}/balance")["balance"]  # a string: decimal.Decimal, never float
    print("received NGN", amount, flush=True)

    holder = call("POST", "/v1/transfers/lookup", {"bankCode": bank_code, "accountNumber": account_number})
    print("paying to", holder["AccountName"], flush=True)

    # The key makes it safe to ask again when the answer is lost: a new one for each payout, kept beside your own record of it
    # before the first call.
    payout_key = str(uuid.uuid4())
    order = {
        "amount": amount,
        "bankCode": bank_code,
        "accountNumber": account_number,
        "accountName": holder["AccountName"],
        "narration": f"payout of {ref}",
    }
    accepted = call("POST", f"/v1/accounts/{account}/settle", order, {"Idempotency-Key": payout_key})
    print("accepted as", accepted["merchantTxRef"], flush=True)

    transfer = accepted
    while transfer["status"] not in ("success", "failed", "refunded"):
        time.sleep(1)
        transfer = call("GET", f'/v1/transfers/{accepted["merchantTxRef"]}')
    print("the transfer ended:", transfer["status"], flush=True)


if __name__ == "__main__":
    if not KEY or len(sys.argv) != 4:
        sys.exit("usage: AJO_API_KEY=... payout.py <your reference> <bank code> <account number>")
    main(*sys.argv[1:])
