package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"ajo/internal/app"
)

// newDevCmd is `ajo dev`: everything on one machine.
func newDevCmd() *cobra.Command {
	o := app.DevOptions{Dir: localDir, Out: os.Stdout, Commands: runInside}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine: databases, fake bank, API, workers, queue dashboard",
		Long: `Run everything on this machine, in one process: a private Postgres and Redis, the fake bank,
the API, workers for all queues and the operations listener. Sends one real payment through
the whole chain, prints where things are, and runs until it is interrupted.

It has its own settings and reads none from the environment. Where port 8080, 8081 or 8090 is taken, it uses a free one.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return app.Dev(ctx, o)
		},
	}
	cmd.Flags().BoolVar(&o.Install, "install", true, "install Postgres and Redis when they are missing")
	cmd.Flags().BoolVar(&o.Once, "once", false, "end after the demo payment")
	return cmd
}
