package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
)

func (t *tool) newStatusCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how the service is; exit code 1 when something needs attention",
		Long: `Shows how the service is: its databases and workers, overdue work, payments and payouts that wait, what people must decide, endpoints
that fail, and the last comparison with the bank's list, with the wallet. A line with ! needs attention, by the same thresholds as the alerts; LOOK AT names the command that shows more. It changes nothing.
Exit code 1 when a line needs attention or something could not be read.`,
		Example: "  ajo status\n  watch -n 10 ajo status",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				s, err := tools.Status(ctx)
				if err != nil {
					return err
				}
				if err := printStatus(cmd, asJSON, s); err != nil {
					return err
				}
				if !s.OK {
					return exitCode(1)
				}
				return nil
			})
		},
	}
	addJSON(cmd, &asJSON)
	return cmd
}

func printStatus(cmd *cobra.Command, asJSON bool, s app.Status) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return printJSON(out, s)
	}
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
