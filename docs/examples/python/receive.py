"""A tenant's webhook endpoint: it verifies each webhook, does once what it asks for, and answers. Python 3.9 or later.

AJO_WEBHOOK_SECRET=... ADDR=127.0.0.1:3000 python3 docs/examples/python/receive.py
"""

import hashlib
import hmac
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def verify(header, body, secret, tolerance_seconds=300):
    """Returns the event of a genuine, fresh webhook, and raises ValueError for anything else. body is the bytes as they came."""
    t, signatures = None, []
    for part in (header or "").split(","):
        name, _, value = part.partition("=")
        if name == "t" and t is None:
            t = value
        elif name == "t":
            raise ValueError("two timestamps")
        elif name == "v1":
            signatures.append(value)  # two of them while the secret is replaced
    if not t or not t.isascii() or not t.isdigit() or not signatures:
        raise ValueError("unsigned")
    if abs(int(time.time()) - int(t)) > tolerance_seconds:
        raise ValueError("too old, or the clock is wrong")
    want = hmac.new(secret.encode(), t.encode() + b"." + body, hashlib.sha256).hexdigest()
    if not any(hmac.compare_digest(s.encode(), want.encode()) for s in signatures):
        raise ValueError("the signature does not match")
    return json.loads(body)


done = set()  # in your database, in the transaction that does the work
over = set()  # likewise: payments that count no more, even before they have come
lock = threading.Lock()


class Endpoint(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        if self.path != "/hook":
            return self.answer(404)
        try:
            length = min(int(self.headers.get("Content-Length") or 0), 1 << 20)
            event = verify(self.headers.get("X-Service-Signature"), self.rfile.read(length), secret)
        except ValueError as error:
            print("refused:", error, flush=True)
            return self.answer(400)
        key = event["eventType"] + " " + (event.get("transactionGroupId") or event.get("id", ""))
        with lock:
            again = key in done
            done.add(key)
            group, is_reversed = event.get("transactionGroupId"), event["eventType"] == "payment.reversed"
            late = group in over  # events come in any order
            if is_reversed:
                over.add(group)
            if event.get("replaces"):
                over.add(event["replaces"])
        if again:  # a repetition: answer it, and do nothing
            print("again:", key, flush=True)
        elif is_reversed:
            print(f'payment.reversed: {event["accountRef"]} {event["amount"]}: take back what was done for it', flush=True)
        elif late:
            print(f'{event["eventType"]}: {event["accountRef"]} {event["amount"]} does not count any more ({group}): deliver nothing for it', flush=True)
        elif event.get("policy"):
            print(f'{event["eventType"]}: {event["accountRef"]} {event["amount"]} is held ({event["policy"]}): deliver nothing for it', flush=True)
        elif event.get("replaces"):
            print(f'{event["eventType"]}: {event["accountRef"]} {event["amount"]} in the place of {event["replaces"]}: deliver no second time', flush=True)
        elif event["eventType"] == "payment.received":
            print(f'payment.received: {event["accountRef"]} got NGN {event["amount"]} from "{event["senderName"]}"', flush=True)
        else:
            print(f'{event["eventType"]}: {event.get("accountRef")} {event.get("amount")}', flush=True)
        self.answer(204)  # any 2xx, within 10 seconds; slow work belongs in a queue of your own

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    secret = os.environ.get("AJO_WEBHOOK_SECRET")  # from POST /auth/webhook-secret
    if not secret:
        sys.exit("AJO_WEBHOOK_SECRET is not set")
    host, _, port = os.environ.get("ADDR", "127.0.0.1:3000").rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), Endpoint)
    print(f"listening on http://{host}:{server.server_address[1]}/hook", flush=True)
    server.serve_forever()
