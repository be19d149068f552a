package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/user"
	"strconv"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/config"
	"ajo/internal/secret"
)

// tool is what the operators' commands share.
type tool struct {
	getenv func(string) string
	inside *inside // nil: a process of its own runs the command
}

// newToolCmds are the operators' commands. getenv is the environment: os.Getenv, but for tests.
func newToolCmds(getenv func(string) string) []*cobra.Command {
	return (&tool{getenv: getenv}).commands()
}

func (t *tool) commands() []*cobra.Command {
	return []*cobra.Command{
		t.newTransfersCmd(), t.newFreezeCmd(), t.newReviewCmd(), t.newRecallsCmd(), t.newEventsCmd(), t.newAccountsCmd(), t.newDeliveriesCmd(), t.newTenantCmd(), t.newPricesCmd(), t.newCustomersCmd(), t.newLedgerCmd(), t.newReconcileCmd(), t.newAuditCmd(), t.newWorkCmd(), t.newArchiveCmd(), t.newWalletCmd(), t.newRekeyCmd(), t.newStatusCmd(), t.newOperatorsCmd(),
	}
}

// group is a command that only has subcommands.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(subs...)
	return cmd
}

// with opens the tools, lets fn use them, and closes them again; those of the console stay open.
func (t *tool) with(cmd *cobra.Command, fn func(ctx context.Context, tools *app.Tools) error) error {
	if t.inside != nil {
		return fn(cmd.Context(), t.inside.tools)
	}
	cfg, err := config.Some(t.getenv, append([]string{
		"AJO_CONFIRM_DELAYS", "AJO_CONFIRM_MIN_AGE", "AJO_SETTLE_RECHECKS", "AJO_FEE_TIERS", "AJO_SMTP_URL", "AJO_MAIL_FROM", "AJO_PROVIDER_RATE", "AJO_PROVIDER_POST_RATE", "AJO_RECONCILE_BACK",
	}, archiveSettings...)...)
	if err != nil {
		return err
	}
	// these may be unset, have a default for the roles alone, or are checked where they are used
	cfg.Env = t.getenv("AJO_ENV")
	cfg.DatabaseURL, cfg.RedisURL = secret.Redact(t.getenv("AJO_DATABASE_URL")), secret.Redact(t.getenv("AJO_REDIS_URL"))
	cfg.EncryptionKeys, cfg.MailDir = secret.Redact(t.getenv("AJO_ENCRYPTION_KEYS")), t.getenv("AJO_MAIL_DIR")
	cfg.ProviderURL, cfg.ProviderAccountID = t.getenv("AJO_PROVIDER_URL"), t.getenv("AJO_PROVIDER_ACCOUNT_ID")
	cfg.ProviderClientID, cfg.ProviderClientSecret = t.getenv("AJO_PROVIDER_CLIENT_ID"), secret.Redact(t.getenv("AJO_PROVIDER_CLIENT_SECRET"))
	tools, err := app.OpenTools(cmd.Context(), app.ToolSettings{Config: cfg, Log: app.CommandLog(cmd.ErrOrStderr(), t.getenv, slog.LevelWarn)})
	if err != nil {
		return err
	}
	defer tools.Close()
	return fn(cmd.Context(), tools)
}

// osUser is the name of the user that runs this process, or its number where it has no name. Behind
// it stands who became that user by sudo: on a server, all who may read the settings are root.
func osUser() string {
	name := "uid-" + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		return name + " (sudo " + by + ")"
	}
	return name
}

// isTerminal reports whether a person may be at the other end of r. /dev/null is a character device
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
