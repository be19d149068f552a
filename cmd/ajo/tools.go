package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
	"ajo/internal/secret"
)

// tool is what the operators' commands share.
type tool struct {
	getenv func(string) string
}

// newToolCmds are the operators' commands. getenv is the environment: os.Getenv, but for tests.
func newToolCmds(getenv func(string) string) []*cobra.Command {
	t := &tool{getenv: getenv}
	return []*cobra.Command{
		t.newTransfersCmd(), t.newReviewCmd(), t.newRecallsCmd(), t.newEventsCmd(), t.newAccountsCmd(), t.newDeliveriesCmd(), t.newTenantCmd(), t.newCustomersCmd(), t.newLedgerCmd(), t.newReconcileCmd(), t.newAuditCmd(), t.newRekeyCmd(),
	}
}

// group is a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(subs...)
	return cmd
}

// with opens the tools, lets fn use them, and closes them again.
func (t *tool) with(cmd *cobra.Command, fn func(ctx context.Context, tools *app.Tools) error) error {
	tools, err := app.OpenTools(cmd.Context(), app.ToolSettings{
		DatabaseURL:    secret.Redact(t.getenv("AJO_DATABASE_URL")),
		RedisURL:       secret.Redact(t.getenv("AJO_REDIS_URL")),
		EncryptionKeys: secret.Redact(t.getenv("AJO_ENCRYPTION_KEYS")),
		Bank: app.BankSettings{
			URL: t.getenv("AJO_PROVIDER_URL"), AccountID: t.getenv("AJO_PROVIDER_ACCOUNT_ID"), ClientID: t.getenv("AJO_PROVIDER_CLIENT_ID"),
			ClientSecret: secret.Redact(t.getenv("AJO_PROVIDER_CLIENT_SECRET")),
		},
		Log: app.CommandLog(cmd.ErrOrStderr(), t.getenv, slog.LevelWarn),
	})
	if err != nil {
		return err
	}
	defer tools.Close()
	return fn(cmd.Context(), tools)
}

// listFlags are those of every list.
type listFlags struct {
	limit int
	after string
	json  bool
}

func (f *listFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.limit, "limit", page.DefaultList, "rows, from 1 to "+strconv.Itoa(page.Max))
	cmd.Flags().StringVar(&f.after, "after", "", "cursor of the page before")
	addJSON(cmd, &f.json)
}

func (f *listFlags) request() (page.Request, error) {
	return page.Parse(strconv.Itoa(f.limit), f.after, page.DefaultList)
}

func addJSON(cmd *cobra.Command, json *bool) {
	cmd.Flags().BoolVar(json, "json", false, "print JSON instead of a table")
}

// changeFlags are those of every command that changes something.
type changeFlags struct {
	reason string
	yes    bool
	json   bool
}

func (f *changeFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why this is done; kept in the audit log (required)")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do it without asking; required where there is no terminal")
	addJSON(cmd, &f.json)
}

// by says who runs this program and why, or refuses.
func (f *changeFlags) by() (audit.By, error) {
	by := audit.By{Actor: "cli:" + osUser(), Reason: f.reason}
	if err := by.Check(); err != nil {
		return by, fmt.Errorf("--reason: %w", err)
	}
	return by, nil
}

// osUser is the name of the user that runs this process, or its number where it has no name.
func osUser() string {
	u, err := user.Current()
	if err != nil {
		return "uid-" + strconv.Itoa(os.Getuid())
	}
	return u.Username
}

// Why a change was not made.
var (
	errUnasked = errors.New("nothing was changed: there is no terminal to ask on; pass --yes to do it")
	errRefused = errors.New("nothing was changed")
)

// confirm states what will be done, and asks. The sentence goes to stderr, so that stdout is the
// result alone.
func (f *changeFlags) confirm(cmd *cobra.Command, format string, args ...any) error {
	out := cmd.ErrOrStderr()
	fmt.Fprintln(out, printable(fmt.Sprintf(format, args...)))
	if f.yes {
		return nil
	}
	if !isTerminal(cmd.InOrStdin()) {
		return errUnasked
	}
	fmt.Fprint(out, "Proceed? [y/N] ")
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errRefused
}

// isTerminal tells whether a person may be at the other end of r. /dev/null is a character device
// too.
func isTerminal(r io.Reader) bool {
	if t, ok := r.(interface{ IsTerminal() bool }); ok { // a test's
		return t.IsTerminal()
	}
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// done reports a change: as JSON, or in a sentence.
func (f *changeFlags) done(cmd *cobra.Command, result any, format string, args ...any) error {
	if f.json {
		return printJSON(cmd, result)
	}
	fmt.Fprintln(cmd.OutOrStdout(), printable(fmt.Sprintf(format, args...)))
	return nil
}

// noteRing says so on stderr when a ring did not reach Redis.
func noteRing(cmd *cobra.Command, tools *app.Tools) {
	if !tools.Rung() {
		fmt.Fprintln(cmd.ErrOrStderr(), "Redis was not told (AJO_REDIS_URL): a worker finds the work at its next sweep.")
	}
}

func parseID(what, s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return id, fmt.Errorf("%s is a UUID, not %q", what, s)
	}
	return id, nil
}
