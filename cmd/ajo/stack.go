package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"ajo/internal/stack"
)

// What ajo writes on a developer's machine lies below .ajo in the current directory.
const (
	localDir = ".ajo"
	testDir  = ".ajo/test" // a directory a run of `ajo stack`, removed after it
)

// exitCode is an error that says nothing more: the command that ajo ran has said it, and ajo ends
// with its code.
type exitCode int

func (c exitCode) Error() string { return "exit status " + strconv.Itoa(int(c)) }

// failsUnless ends a command with code 1 when what it has printed is not as it should be.
func failsUnless(ok bool) error {
	if ok {
		return nil
	}
	return exitCode(1)
}

func newStackCmd() *cobra.Command {
	opt := stack.Options{Ephemeral: true, Log: progress}
	cmd := &cobra.Command{
		Use:   "stack [flags] -- command [argument…]",
		Short: "Run a command with a private Postgres and Redis",
		Long: "Starts an empty Postgres and Redis, runs the command with AJO_TEST_DATABASE_URL and AJO_TEST_REDIS_URL set,\n" +
			"removes both again, and exits with the command's code. Missing servers are installed if that needs no password.",
		Example: "  ajo stack -- go test ./...\n  ajo stack -- sh -c 'psql $AJO_TEST_DATABASE_URL'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no command given, as in: ajo stack -- make bench")
			}
			return withStack(cmd.Context(), opt, args)
		},
	}
	cmd.Flags().BoolVar(&opt.Install, "install", true, "install Postgres and Redis when they are missing")
	cmd.Flags().StringSliceVar(&opt.Also, "also", nil, "further programs that must be there: pgbackrest, patroni, etcd")
	cmd.Flags().IntVar(&opt.MaxConnections, "max-connections", 500, "Postgres' limit")
	return cmd
}

func newResetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Remove all local data (" + localDir + "): databases, e-mails, spool and keys of ajo dev",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return stack.Reset(localDir)
		},
	}
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "ajo: "+format+"\n", args...) }

// withStack runs the command args beside an ephemeral stack. Interrupts go to the command, which
// decides when it ends; before and after it they end the stack's start, or are ignored for its
// stop, which takes a moment.
func withStack(ctx context.Context, opt stack.Options, args []string) error {
	run := exec.Command(args[0], args[1:]...)
	if run.Err != nil {
		return run.Err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	sweep()
	opt.Dir = filepath.Join(testDir, strconv.Itoa(os.Getpid()))
	s, err := startUnlessSignalled(ctx, opt, signals)
	if err != nil {
		return err
	}
	defer s.Stop()

	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	run.Env = append(os.Environ(), "AJO_TEST_DATABASE_URL="+s.DatabaseURL, "AJO_TEST_REDIS_URL="+s.RedisURL)
	if err := run.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	for failed := s.Failed(); ; {
		select {
		case sig := <-signals:
			if err := run.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				progress("%v", err)
			}
		case err := <-failed:
			progress("%v", err) // the command will run into it; what it reports then is explained
		case err := <-ended:
			return commandResult(err)
		}
	}
}

func startUnlessSignalled(ctx context.Context, opt stack.Options, signals <-chan os.Signal) (*stack.Stack, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case sig := <-signals:
			cancel(fmt.Errorf("stopped by a signal: %v", sig))
		case <-started:
		}
	}()
	s, err := stack.Start(ctx, opt)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s, err
}

// commandResult turns the command's end into ours; like a shell, a command ended by signal n counts
// as code 128+n.
func commandResult(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitCode(128 + int(status.Signal()))
	}
	return exitCode(exit.ExitCode())
}

// sweep removes what runs that were killed left behind. Runs that are under way hold their lock,
// and keep theirs.
func sweep() {
	old, err := os.ReadDir(testDir)
	if err != nil {
		return // the first run here
	}
	for _, e := range old {
		if err := stack.Reset(filepath.Join(testDir, e.Name())); err != nil && !errors.Is(err, stack.ErrInUse) {
			progress("%v", err)
		}
	}
}
