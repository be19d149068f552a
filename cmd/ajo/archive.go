package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/archive"
	"ajo/internal/audit"
	"ajo/internal/page"
)

// archiveSettings are what the commands read of the environment.
var archiveSettings = []string{
	"AJO_KEEP_EVENTS", "AJO_KEEP_DELIVERIES", "AJO_ARCHIVE_DIR", "AJO_ARCHIVE_S3_ENDPOINT", "AJO_ARCHIVE_S3_REGION", "AJO_ARCHIVE_S3_BUCKET", "AJO_ARCHIVE_S3_PREFIX",
	"AJO_ARCHIVE_S3_ACCESS_KEY", "AJO_ARCHIVE_S3_SECRET_KEY", "AJO_ARCHIVE_S3_PATH_STYLE",
}

func (t *tool) newArchiveCmd() *cobra.Command {
	return group("archive", "Show what is archived and what will be, verify it, and restore it",
		t.newArchiveListCmd(), t.newArchiveShowCmd(), t.newArchiveVerifyCmd(), t.newArchiveRunCmd(), t.newArchiveRestoreCmd(), t.newArchiveExportCmd())
}

func (t *tool) newArchiveListCmd() *cobra.Command {
	var state string
	return newListCmd(t, listing[archive.Entry]{
		command: command{
			short: "List the partitions, and say of each whether it is archived, or when it will be",
			long: `Lists the partitions of the tables that are archived, the oldest first. STATE is kept (not old enough by AJO_KEEP_EVENTS or
AJO_KEEP_DELIVERIES), due (the
workers archive it soon), waiting (it is old enough, and something in it may still move: WHY says what), archived (in the store alone)
or restored (in both). AT is when it may be archived, or was archived.`,
			example: "  ajo archive list --state waiting",
			flags: func(cmd *cobra.Command) {
				addChoice(cmd, &state, "state", archive.Kept, archive.Due, archive.Waiting, archive.Archived, archive.Restored)
			},
		},
		whole: true,
		read: func(ctx context.Context, tools *app.Tools, _ []string, _ page.Request) ([]archive.Entry, page.Info, error) {
			all, err := tools.Archive.List(ctx, true)
			if state != "" {
				all = slices.DeleteFunc(all, func(e archive.Entry) bool { return e.State != archive.State(state) })
			}
			return all, page.Info{}, err
		},
		row: func(e archive.Entry, _ time.Time) []field {
			return []field{
				{"PARTITION", e.Partition},
				{"FROM", day(e.From)},
				{"TO", day(e.To)},
				{"STATE", string(e.State)},
				{"AT", stamp(e.At)},
				{"MB", strconv.FormatInt(e.Bytes>>20, 10)},
				{"WHY", cut(why(e), 120)},
			}
		},
	})
}

// day is a bound of a partition; "" where it has none.
func day(at time.Time) string {
	if at.Unix() <= 0 {
		return ""
	}
	return at.Format(time.DateOnly)
}

// why is what keeps a partition in the database.
func why(e archive.Entry) string {
	if len(e.Waits) == 0 {
		return e.LastError
	}
	texts := make([]string, len(e.Waits))
	for i, w := range e.Waits {
		texts[i] = w.String()
	}
	return strings.Join(texts, "; ")
}

func (t *tool) newArchiveShowCmd() *cobra.Command {
	return newShowCmd(t, showing[archive.Entry]{
		command: command{use: "show <partition>", short: "Show a partition and the manifest of its object", example: "  ajo archive show deliveries_20260101"},
		read: func(ctx context.Context, tools *app.Tools, name string) (archive.Entry, error) {
			return tools.Archive.Find(ctx, name)
		},
		print: func(out io.Writer, e archive.Entry) error {
			fields := []field{
				{"partition", e.Partition},
				{"table", e.Table},
				{"from", day(e.From)},
				{"to", day(e.To)},
				{"state", string(e.State)},
				{"at", stamp(e.At)},
				{"last error", e.LastError},
			}
			if m := e.Manifest; m != nil {
				fields = append(fields, field{"object", m.Object}, field{"rows", strconv.FormatInt(m.Rows, 10)},
					field{"exported at", stamp(&m.At)}, field{"schema", strconv.FormatInt(m.Schema, 10)},
					field{"SHA-256, compressed", m.Compressed.SHA256}, field{"SHA-256, plain", m.Plain.SHA256})
				for column, sum := range m.Sums {
					fields = append(fields, field{"sum of " + column, sum})
				}
			}
			return printFields(out, fields...)
		},
	})
}

// errArchiveDamaged ends `ajo archive verify` where something is wrong.
var errArchiveDamaged = errors.New("the archive is damaged: restore these objects from a copy of the store")

func (t *tool) newArchiveVerifyCmd() *cobra.Command {
	var cmd *cobra.Command
	cmd = newShowCmd(t, showing[archive.Report]{
		command: command{
			use: "verify", short: "Read every object of the archive, and compare it with its manifest",
			long: `Reads every object of the archive to its end, and compares sizes, digests and rows with its manifest, and the manifest with what the
database says of the partition. It changes nothing. It ends with an error if an object is missing or differs. Objects that no partition
needs are named: of exports, of attempts that did not end, and of partitions that were archived once more.`,
			example: "  ajo archive verify",
		},
		args: cobra.NoArgs,
		read: func(ctx context.Context, tools *app.Tools, _ string) (archive.Report, error) {
			return tools.Archive.Verify(ctx, func(object string) { fmt.Fprintln(cmd.ErrOrStderr(), "read", printable(object)) })
		},
		print: printArchiveReport,
		ends: func(r archive.Report) error {
			if len(r.Findings) > 0 {
				return errArchiveDamaged
			}
			return nil
		},
	})
	return cmd
}

func printArchiveReport(out io.Writer, r archive.Report) error {
	for _, name := range r.Unneeded {
		fmt.Fprintln(out, "no partition needs", printable(name))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(out, "%s: %s\n", printable(f.Object), printable(f.Problem))
	}
	_, err := fmt.Fprintf(out, "%d objects with %d rows (%d bytes) are as their manifests say; %d are not\n", r.Objects, r.Rows, r.Bytes, len(r.Findings))
	return err
}

func (t *tool) newArchiveRunCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "run <partition>", short: "Archive a partition that is due now, instead of waiting for the workers",
			long: `Does for one partition what the workers do every ten minutes: exports it, reads the export back, compares it, and drops the partition.
One that is not old enough, or in which something may still move, is refused.`,
			example: `  ajo archive run deliveries_20260101 --reason "the disk is nearly full"`,
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			e, err := tools.Archive.Find(ctx, args[0])
			if err != nil {
				return plan{}, err
			}
			if e.State == archive.Archived {
				return plan{noChange: new(done(e.Manifest, "%s is archived already.", e.Partition))}, nil
			}
			return plan{
				will: fmt.Sprintf("Move %s (%d MB) to the archive. Its rows are no longer in the database then.", e.Partition, e.Bytes>>20),
				do: func(by audit.By) (result, error) {
					m, err := tools.Archive.ArchiveByHand(ctx, e.Partition, by)
					if err != nil {
						return result{}, err
					}
					return done(m, "%d rows are in %s.", m.Rows, m.Object), nil
				},
			}, nil
		},
	})
}

func (t *tool) newArchiveRestoreCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "restore <partition>", short: "Bring an archived partition back into the database",
			long: `Puts an archived partition back, with its indexes and guards, in one transaction: the object is compared with its manifest while it is
read, and the rows once more in the table. It stays for 30 days; then the workers archive it again. The object stays in the store. The
attempts of deliveries come back before the deliveries.`,
			example: `  ajo archive restore delivery_attempts_20260101 --reason "ticket 4711"
  ajo archive restore deliveries_20260101 --reason "ticket 4711: the tenant asks what was sent"`,
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			e, err := tools.Archive.Find(ctx, args[0])
			if err != nil {
				return plan{}, err
			}
			if e.State == archive.Restored {
				return plan{noChange: new(done(e.Manifest, "%s is back already.", e.Partition))}, nil
			}
			if e.State != archive.Archived {
				return plan{}, archive.ErrNotArchived
			}
			return plan{
				will: fmt.Sprintf("Bring %d rows of %s from %s back (%d MB compressed).", e.Manifest.Rows, e.Partition, e.Manifest.Object, e.Bytes>>20),
				do: func(by audit.By) (result, error) {
					m, err := tools.Archive.Restore(ctx, e.Partition, by)
					if err != nil {
						return result{}, err
					}
					return done(m, "%s is back with %d rows.", e.Partition, m.Rows), nil
				},
			}, nil
		},
	})
}

func (t *tool) newArchiveExportCmd() *cobra.Command {
	from, to := dayFlag{utc: true}, dayFlag{utc: true}
	return t.newChangeCmd(change{
		command: command{
			use: "export <table> --from <day> --to <day>", short: "Write a range of rows to the archive's store, and leave them where they are",
			long: `Writes the rows of a table (event_bodies, deliveries or delivery_attempts) that were created from one day (inclusive) to another
(exclusive), in UTC, to exports/ in the archive's store, with a manifest. It reads one snapshot, reads back what it wrote, and removes
nothing.`,
			example: `  ajo archive export deliveries --from 2026-01-01 --to 2026-02-01 --reason "for the auditors"`,
			flags: func(cmd *cobra.Command) {
				addFlag(cmd, &from, "from", "the first day, in UTC, such as 2026-01-30 (required)")
				addFlag(cmd, &to, "to", "the end, a day in UTC that is not included (required)")
				must(cmd.MarkFlagRequired("from"))
				must(cmd.MarkFlagRequired("to"))
			},
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			return plan{
				will: fmt.Sprintf("Write the rows of %s from %s to %s to the store of the archive.", args[0], &from, &to),
				do: func(by audit.By) (result, error) {
					m, err := tools.Archive.Export(ctx, args[0], from.at, to.at, by)
					if err != nil {
						return result{}, err
					}
					return done(m, "%d rows are in %s.", m.Rows, m.Object), nil
				},
			}, nil
		},
	})
}
