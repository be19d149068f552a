package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/config"
	"ajo/tasks"
)

func newAPICmd() *cobra.Command {
	return &cobra.Command{
		Use:   "api",
		Short: "Serve the API (settings from the environment: `ajo settings`)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRole(cmd, config.Load, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
				a, failed, err := app.StartAPI(ctx, cfg, log)
				if err != nil {
					return err
				}
				defer a.Stop()
				log.Info("the API listens", "url", a.URL, "version", app.Version())
				select {
				case <-ctx.Done():
					return nil
				case err := <-failed:
					return err
				}
			})
		},
	}
}

// runRole reads the settings, serves the operations port and runs the role, until SIGINT or SIGTERM
// ends its context.
func runRole(cmd *cobra.Command, load func() (config.Config, error), run func(context.Context, config.Config, *slog.Logger) error) error {
	cfg, err := load()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := app.Logger(cfg)
	ops, err := app.StartOps(cfg, log, runInside)
	if err != nil {
		return err
	}
	defer ops.Stop()
	return run(ctx, cfg, log)
}

func newWorkerCmd() *cobra.Command {
	var queues string
	cmd := &cobra.Command{
		Use:     "worker",
		Short:   "Run the tasks of the queues, and the sweeper",
		Example: "  ajo worker\n  ajo worker --queues ingest=256,deliver=128",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted, err := parseQueues(queues)
			if err != nil {
				return err
			}
			return runRole(cmd, config.Load, func(ctx context.Context, cfg config.Config, log *slog.Logger) error {
				w, err := app.StartWorker(ctx, cfg, log, wanted)
				if err != nil {
					return err
				}
				log.Info("the worker runs", "queues", wanted, "version", app.Version())
				<-ctx.Done()
				w.Stop()
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&queues, "queues", "", "queues to serve, with their concurrency, such as ingest=256,deliver=128; empty: all")
	return cmd
}

func newSandboxCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "sandbox",
		Short: "Run test mode: a simulated bank, the API and the workers, on a database of its own",
		Long: `Run test mode in one process: a simulated bank, the API and workers for all queues, on a database
and a Redis of its own, which hold nothing of the live service. The live API sends requests of test
mode on to it (AJO_TEST_URL and AJO_TEST_SECRET, the same secret here). The settings of the bank, of
the NIN service and of mail are not read. Its data may be dropped at any time: the database, the
Redis database and the folder above AJO_SPOOL_DIR, together.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRole(cmd, config.LoadSandbox, app.Sandbox) },
	}
}

// parseQueues reads "ingest=256,deliver": a queue without a number has its own concurrency (0);
// empty is every queue.
func parseQueues(s string) (map[tasks.Kind]int, error) {
	if s == "" {
		return app.AllQueues(), nil
	}
	queues := map[tasks.Kind]int{}
	for part := range strings.SplitSeq(s, ",") {
		name, number, given := strings.Cut(strings.TrimSpace(part), "=")
		k := tasks.Kind(name)
		if _, ok := tasks.Specs[k]; !ok {
			return nil, fmt.Errorf("--queues: there is no queue %q; the queues are ingest, confirm, settle, deliver and expire", name)
		}
		if _, twice := queues[k]; twice {
			return nil, fmt.Errorf("--queues: %s is named twice", name)
		}
		n, err := strconv.Atoi(number)
		if given && (err != nil || n < 1 || n > 10_000) {
			return nil, fmt.Errorf("--queues: the concurrency of %s must be a number from 1 to 10000, not %q", name, number)
		}
		queues[k] = n
	}
	return queues, nil
}

func newMigrateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema at AJO_DATABASE_URL up to date, and create the coming partitions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Some(os.Getenv, "AJO_PARTITION")
			if err != nil {
				return err
			}
			size := cfg.Partition
			if os.Getenv("AJO_PARTITION") == "" { // a job may have no settings but the database
				size = ""
			}
			return app.Migrate(cmd.Context(), os.Getenv("AJO_DATABASE_URL"), size, cmd.OutOrStdout())
		},
	}
}

func newSettingsCmd() *cobra.Command {
	var envFile bool
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Print every setting with its meaning and default, as a markdown table",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			text := config.Table()
			if envFile {
				text = config.EnvFile()
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
		},
	}
	cmd.Flags().BoolVar(&envFile, "env", false, "print a file of environment variables to fill in instead")
	return cmd
}
