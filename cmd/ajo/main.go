// Command ajo is the whole system in one binary; its roles are subcommands. A file here parses
// flags and calls a package, and holds no rule of its own. An error is one line on stderr and exit
// code 1. An operators' command is a list, a show or a change (commands.go). It is named in
// tools.go and, for the console, in package console: in Reads, or in Actions or Excuses.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"ajo/internal/app"
)

func main() { os.Exit(run()) }

func run() int {
	err := newRootCmd().ExecuteContext(context.Background())
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "ajo:", printableLines(err.Error()))
	return 1
}

func newRootCmd() *cobra.Command {
	env := newEnvironment(os.Getenv, localDir, os.Stderr)
	root := &cobra.Command{
		Use:           "ajo",
		Short:         "Virtual accounts and a ledger for Nigerian collections",
		Version:       app.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDevCmd(), newAPICmd(), newWorkerCmd(), newSandboxCmd(), newMigrateCmd(), newFakebankCmd(), newSettingsCmd(), newHealthCmd(), newStackCmd(), newResetCmd(), newListenCmd(env), newTriggerCmd(env))
	root.AddCommand(newToolCmds(env.get)...)
	return root
}
