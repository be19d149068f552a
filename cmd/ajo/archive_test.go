package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"ajo/internal/archive"
	"ajo/internal/partition"
	"ajo/internal/webhook"
)

// oldDelivery is a delivered delivery, with its attempt, in a partition that is old enough to be
// archived.
func (o *ops) oldDelivery() uuid.UUID {
	o.T.Helper()
	o.env["AJO_KEEP_DELIVERIES"], o.env["AJO_ARCHIVE_DIR"] = "744h", o.T.TempDir()
	end := partition.Floor(time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC))
	for _, table := range []string{"deliveries", "delivery_attempts"} {
		o.Exec("ALTER TABLE " + table + " DETACH PARTITION " + table + "_earlier")
		o.Exec("ALTER TABLE " + table + " ATTACH PARTITION " + table + "_earlier FOR VALUES FROM (MINVALUE) TO ('" + end.String() + "')")
	}
	at := time.Date(2025, 11, 10, 9, 0, 0, 0, time.UTC)
	id := partition.Floor(at)
	id[6], id[8] = 0x70, 0x80
	o.Exec(`INSERT INTO deliveries (id, tenant_id, account_id, transaction_group_id, event_type, callback_url, body, status, attempt_count, created_at, delivered_at)
		VALUES ($1, $2, $3, $1, 'payment.received', 'https://shop.example/', '{}', 'delivered', 2, $4, $4)`, id, o.tenant, o.account, at)
	o.Exec(`INSERT INTO delivery_attempts (delivery_id, attempt, started_at, duration_ms, status_code, error, response_body) VALUES ($1, 1, $2, 12, 500, 'HTTP 500', 'no')`, id, at)
	return id
}

// archived is a partition that is in the archive alone.
func (o *ops) archived() string {
	o.T.Helper()
	o.oldDelivery()
	for _, name := range []string{"deliveries_earlier", "delivery_attempts_earlier"} {
		o.good("archive", "run", name, "--yes", "--reason", "the disk is nearly full")
	}
	return "delivery_attempts_earlier"
}

// emptyPartition is one behind those of oldDelivery, and old enough too.
func (o *ops) emptyPartition() string {
	o.T.Helper()
	const name = "delivery_attempts_20251201"
	from, to := partition.Floor(time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC)), partition.Floor(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	o.Exec("CREATE TABLE " + name + " PARTITION OF delivery_attempts FOR VALUES FROM ('" + from.String() + "') TO ('" + to.String() + "')")
	return name
}

func TestArchiveCommands(t *testing.T) {
	o := setup(t)
	id := o.oldDelivery()
	const deliveries, attempts = "deliveries_earlier", "delivery_attempts_earlier"
	because := []string{"--yes", "--reason", "ticket 4711"}
	change := func(args ...string) string {
		return o.good(append(append([]string{"archive"}, args...), because...)...)
	}
	state := func(state archive.State) (names []string) {
		for _, e := range decode[list[archive.Entry]](o, "archive", "list", "--state", string(state)).Items {
			names = append(names, e.Partition)
		}
		return names
	}
	refused := func(want error, args ...string) {
		t.Helper()
		_, _, err := o.run(append(append([]string{"archive"}, args...), because...)...)
		require.ErrorIs(t, err, want)
	}

	listed := func() (said string) {
		_, said, err := o.run("deliveries", "list")
		require.NoError(t, err)
		return said
	}
	missing := func() *time.Time { // as the console shows it
		return decode[list[webhook.Record]](o, "deliveries", "list", "--limit", "1").ArchivedBefore
	}
	require.Empty(t, listed())
	require.Nil(t, missing())
	require.Equal(t, []string{deliveries}, state(archive.Due))
	require.Equal(t, []string{attempts}, state(archive.Waiting))
	require.Contains(t, o.good("archive", "list", "--state", "waiting"), "1 deliveries that are not archived yet")
	require.Contains(t, o.good("archive", "show", deliveries), "2025-12-01")
	refused(archive.ErrNotArchived, "restore", deliveries)
	require.Empty(t, o.audited())
	refused(archive.ErrWaits, "run", attempts)
	o.lastAudit("archive.run", "partition:"+attempts, "ticket 4711")

	require.Contains(t, change("run", deliveries), "1 rows are in ")
	o.lastAudit("archive.run", "partition:"+deliveries, "ticket 4711")
	require.Contains(t, listed(), "may be archived")
	require.NotNil(t, missing())
	require.Contains(t, change("run", attempts), "1 rows are in ")
	require.Contains(t, change("run", deliveries), "is archived already")
	require.Equal(t, []string{deliveries, attempts}, state(archive.Archived))
	require.Empty(t, state(archive.Due))
	shown := decode[archive.Entry](o, "archive", "show", deliveries)
	require.Equal(t, archive.Archived, shown.State)
	require.EqualValues(t, 1, shown.Manifest.Rows)
	require.Contains(t, o.good("archive", "show", deliveries), shown.Manifest.Compressed.SHA256)
	_, _, err := o.run("deliveries", "show", id.String())
	require.ErrorIs(t, err, webhook.ErrArchived)
	require.ErrorContains(t, err, "ajo archive restore "+deliveries)

	require.Contains(t, o.good("archive", "verify"), "2 objects with 2 rows")
	object := filepath.Join(o.env["AJO_ARCHIVE_DIR"], filepath.FromSlash(shown.Manifest.Object))
	whole, err := os.ReadFile(object)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(object, whole[:len(whole)-1], 0o600))
	out, _, err := o.run("archive", "verify")
	require.ErrorIs(t, err, errArchiveDamaged)
	require.Contains(t, out, shown.Manifest.Object)
	require.Contains(t, out, "1 are not")
	_, _, err = o.run(append([]string{"archive", "restore", attempts}, because...)...)
	require.NoError(t, err, "the other object is whole")
	_, _, err = o.run(append([]string{"archive", "restore", deliveries}, because...)...)
	require.Error(t, err, "a damaged object is not brought back")
	require.NoError(t, os.WriteFile(object, whole, 0o600))

	require.Contains(t, change("restore", deliveries), "is back with 1 rows")
	o.lastAudit("archive.restore", "partition:"+deliveries, "ticket 4711")
	require.Contains(t, change("restore", deliveries), "is back already")
	require.Equal(t, []string{deliveries, attempts}, state(archive.Restored))
	require.Contains(t, o.good("deliveries", "show", id.String()), "https://shop.example/")

	require.Contains(t, change("export", "deliveries", "--from", "2025-11-10", "--to", "2025-11-11"), "1 rows are in exports/")
	o.lastAudit("archive.export", "table:deliveries", "ticket 4711")
	require.Contains(t, change("export", "deliveries", "--from", "2025-11-11", "--to", "2025-11-12"), "0 rows are in exports/", "the last day is not in it")
	require.Contains(t, o.good("archive", "verify"), "no partition needs exports/")
}

func TestArchiveCommandsRefuse(t *testing.T) {
	o := setup(t)
	o.oldDelivery()
	for _, c := range [][]string{
		{`--from must be a day in UTC, such as 2026-10-31, not "yesterday"`, "export", "deliveries", "--from", "yesterday", "--to", "2026-01-01"},
		{archive.ErrRange.Error(), "export", "deliveries", "--from", "2026-01-01", "--to", "2026-01-01"},
		{archive.ErrPartition.Error(), "export", "tenants", "--from", "2025-01-01", "--to", "2026-01-01"},
		{archive.ErrPartition.Error(), "show", "nothing_at_all"},
	} {
		args := append([]string{"archive"}, c[1:]...)
		if c[1] == "export" {
			args = append(args, "--yes", "--reason", "a test")
		}
		_, _, err := o.run(args...)
		require.ErrorContains(t, err, c[0], strings.Join(args, " "))
	}
	require.Empty(t, o.audited())
	require.Equal(t, 1, len(decode[list[archive.Entry]](o, "archive", "list", "--state", "due").Items), "nothing has moved")
}
