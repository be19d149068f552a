package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
)

func (t *tool) newStatusCmd() *cobra.Command {
	return newShowCmd(t, showing[app.Status]{
		command: command{
			use: "status", short: "Show the state of the service on one screen; exit code 1 when something needs attention",
			long: `Shows the state of the service: its databases and workers, overdue work, payments and payouts that wait, what people must decide, endpoints
that fail, and the last comparison with the bank's list, with the wallet. A line with ! needs attention, by the same thresholds as the alerts; LOOK AT names the command that shows more. It changes nothing.
Exit code 1 when a line needs attention or something could not be read.`,
			example: "  ajo status\n  watch -n 10 ajo status",
		},
		args:  cobra.NoArgs,
		read:  func(ctx context.Context, tools *app.Tools, _ string) (app.Status, error) { return tools.Status(ctx) },
		print: printStatus,
		ends:  func(s app.Status) error { return failsUnless(s.OK) },
	})
}

func printStatus(out io.Writer, s app.Status) error {
	needs := 0
	err := printTable(out, s.Lines, func(l app.StatusLine) []field {
		mark := " "
		if l.Needs {
			mark = "!"
			needs++
		}
		return []field{{"  PART", mark + " " + l.Part}, {"WHAT", l.What}, {"STATE", cut(l.State, 120)}, {"LOOK AT", l.Look}}
	})
	if err != nil {
		return err
	}
	at := s.At.UTC().Format(time.RFC3339)
	switch needs {
	case 0:
		fmt.Fprintf(out, "\nNothing needs attention, as of %s.\n", at)
	case 1:
		fmt.Fprintf(out, "\n1 line needs attention, as of %s.\n", at)
	default:
		fmt.Fprintf(out, "\n%d lines need attention, as of %s.\n", needs, at)
	}
	return nil
}
