#!/usr/bin/env bash
# Writes docs/first-payment.md: what a newcomer types in a fresh clone, and sees, up to a verified webhook in a program of their own.
#   docs/examples/record.sh > first-payment.md
# It needs what `make run` needs, and node. Ports 8080, 8081, 8090 and 3000 must be free. Keys, secrets and passwords are cut short.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ ! -e .ajo ] || { echo "there is an .ajo here: this is not a fresh clone" >&2; exit 1; }

seen=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill -TERM "-$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$seen"
}
trap finish EXIT
set -m # each command below has a process group of its own

begin=$(date +%s%N)
stamp() { # puts the time since the beginning before each line
  local line ms
  while IFS= read -r line; do
    ms=$((($(date +%s%N) - begin) / 1000000))
    printf '%4d.%d s  %s\n' $((ms / 1000)) $((ms % 1000 / 100)) "$line"
  done
}
start() { # start <terminal> <command>: runs it in the background
  printf '%s\n' "$2" >"$seen/$1.command"
  bash -c "exec $2" > >(stamp >"$seen/$1") 2>&1 &
  pids+=($!)
}
await() { # await <terminal> <what it prints>
  for _ in $(seq 6000); do
    grep -q "$2" "$seen/$1" 2>/dev/null && return
    sleep 0.1
  done
  echo "terminal $1 did not print: $2" >&2
  cat "$seen/$1" >&2
  exit 1
}

caches="warm"
[ -n "$(ls -A "$(go env GOMODCACHE)" 2>/dev/null)" ] || caches="empty"
start 1 "make run"
await 1 '#link='
start 2 "env AJO_PASSWORD=demo-password bin/ajo listen --email demo@tenant.example --forward-to http://127.0.0.1:3000/hook"
await 2 'Listening'
secret=$(sed -n 's/.*Signing secret: //p' "$seen/2")
start 3 "env AJO_WEBHOOK_SECRET=$secret node docs/examples/node/receive.mjs"
await 3 'listening on'
start 4 "bin/ajo trigger payment --amount 5000"
await 3 'payment.received:'
took=$((($(date +%s%N) - begin) / 1000000000))
await 2 'payment.confirmed'

show() { # show <terminal>
  echo
  echo '```console'
  sed 's/^env /$ /; t; s/^/$ /' "$seen/$1.command"
  awk '/ go: downloading / { n++; next } n { printf "          (%d lines \"go: downloading …\" are left out)\n", n; n = 0 } { print }' "$seen/$1"
  echo '```'
}
{
  cat <<TEXT
# From nothing to a verified webhook: a recording

This page shows what the first steps of [the guide](guide.md#the-first-payment-in-five-minutes) print. [examples/record.sh](examples/record.sh)
recorded it in a fresh clone, starting each command as soon as the one before was ready. **$took seconds** passed from \`make run\` until the
newcomer's own program printed a payment with a verified signature; a person also needs time to read and paste. Go's module and build caches
were $caches, and Postgres and Redis were installed. The machine had $(nproc) cores, $(go env GOVERSION) and node $(node --version). Keys, secrets and
passwords are cut short with ….

Terminal 1 runs the service. Times count from the first command.
TEXT
  show 1
  printf '\nTerminal 2 shows the tenant'"'"'s events and forwards them to the program on this machine. The second event is the confirmation, a few seconds\nlater.\n'
  show 2
  printf '\nTerminal 3 runs the newcomer'"'"'s own program: here, the example in Node.\n'
  show 3
  printf '\nTerminal 4 makes the payment.\n'
  show 4
} | sed -E 's/ajo_[0-9A-Za-z]{45}([0-9A-Za-z]{4})/ajo_…\1/g; s/\b([0-9a-f]{6})[0-9a-f]{58}\b/\1…/g; s/(#link=.{4}).*/\1…/; s/(user ops, password ).*\)/\1…)/'
