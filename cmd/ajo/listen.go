package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/listen"
	"ajo/internal/secret"
)

// newListenCmd is `ajo listen`: a tenant's events on its developer's machine.
func newListenCmd(env *environment) *cobra.Command {
	var o listen.Options
	var link, session string
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Show a tenant's events as they happen, and forward them to a program on this machine",
		Long: `Logs in as a tenant, shows its events as they happen, and posts each to a local address, signed like a real delivery.
The tenant's real deliveries continue. An event that the local program does not accept is not sent again.

The password is asked for, or read from AJO_PASSWORD; with a second factor, a code is asked for, too. You can pass a
session's token in AJO_SESSION and a login link in AJO_LINK instead of on the command line.`,
		Example: "  ajo listen --email me@shop.example --forward-to http://localhost:3000/hook\n" +
			"  ajo listen --link 'http://127.0.0.1:8080/dashboard/#link=…' --events payment.received,settlement.failed --print",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if !cmd.Flags().Changed("api") {
				o.API = env.url("AJO_HTTP_ADDR", o.API)
			}
			o.Login.Link, o.Login.Session = secretFrom(link, "AJO_LINK"), secretFrom(session, "AJO_SESSION")
			if o.Login.Link.IsZero() && o.Login.Session.IsZero() {
				if o.Login.Email == "" {
					return errors.New("pass one of --email, --link and --session")
				}
				var err error
				o.Login.Password, err = password(ctx, cmd.InOrStdin(), cmd.ErrOrStderr(), os.Getenv)
				if ctx.Err() != nil {
					return nil // Ctrl-C
				}
				if err != nil {
					return err
				}
				if isTerminal(cmd.InOrStdin()) {
					o.Login.Code = func(ctx context.Context) (secret.Redacted, error) {
						return ask(ctx, cmd.InOrStdin(), cmd.ErrOrStderr(), "Code of your second factor: ")
					}
				}
			}
			o.Version = app.Version()
			o.Say = func(line string) { fmt.Fprintln(cmd.OutOrStdout(), printable(line)) }
			return listen.Run(ctx, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.API, "api", defaultAPI, "where the API is")
	f.StringVar(&o.Login.Email, "email", "", "the tenant's e-mail")
	f.StringVar(&link, "link", "", "instead of --email: a login link, which works once")
	f.StringVar(&session, "session", "", "instead of --email: the token of a session: the value of its cookie")
	f.StringVar(&o.ForwardTo, "forward-to", "", "where each event is posted, such as http://localhost:3000/hook")
	f.StringSliceVar(&o.Events, "events", nil, "only these types, separated by commas")
	f.BoolVar(&o.Bodies, "print", false, "print the bodies too")
	cmd.MarkFlagsMutuallyExclusive("email", "link", "session")
	return cmd
}

// secretFrom is a flag's value, or that of the environment.
func secretFrom(flag, name string) secret.Redacted {
	return secret.Redact(cmp.Or(flag, os.Getenv(name)))
}
