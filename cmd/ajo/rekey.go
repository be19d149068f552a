package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/rekey"
)

// rekeyed is the result of a rekey as JSON.
type rekeyed struct {
	rekey.Result
	InUse rekey.Usage // values by the id of their key, after the run
}

func (t *tool) newRekeyCmd() *cobra.Command {
	var f changeFlags
	var batch int
	var dry bool
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal every sealed value anew under the first of AJO_ENCRYPTION_KEYS",
		Long: `Seals BVNs, NINs, signing secrets and codes that another key has sealed anew under the first key of
AJO_ENCRYPTION_KEYS, in batches, beside the running service. It may be ended and run again; what is done stays done.
It ends with the keys that are still in use, so that the others can be taken out of the settings: docs/operations.md has
the order. Exit code 1 when a value could not be opened; it is left as it is, and its row and key are named.`,
		Example: "  ajo rekey --dry-run\n" + `  ajo rekey --reason "yearly rotation"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
				s, err := tools.Rekey(batch, progressTo(cmd))
				if err != nil {
					return err
				}
				return runRekey(ctx, cmd, f, s, dry)
			})
		},
	}
	cmd.Flags().IntVar(&batch, "batch", 500, "rows of one transaction, from 1 to 10000")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only open every value that would be sealed anew, and count")
	f.addReason(cmd)
	f.addYes(cmd)
	return cmd
}

func runRekey(ctx context.Context, cmd *cobra.Command, f changeFlags, s *rekey.Service, dry bool) error {
	var by audit.By
	var err error
	if !dry {
		if by, err = f.by(); err != nil {
			return err
		}
	}
	before, err := s.Usage(ctx)
	if err != nil {
		return err
	}
	current := s.Box.Current()
	var out rekeyed
	switch others := before.Others(current); {
	case dry:
		out.Result, err = s.Check(ctx)
	case others == 0:
		out.Current = current
	default:
		if err = f.confirm(cmd, fmt.Sprintf("Seal %d values anew under the key %q (values by key: %s).", others, current, before)); err != nil {
			return err
		}
		out.Result, err = s.Seal(ctx, before, by)
	}
	if err != nil {
		return err
	}
	if out.InUse, err = s.Usage(ctx); err != nil {
		return err
	}
	if err := printRekeyed(cmd, f, out, s.Box.IDs(), dry); err != nil {
		return err
	}
	if len(out.Problems) > 0 {
		return exitCode(1)
	}
	return nil
}

func printRekeyed(cmd *cobra.Command, f changeFlags, out rekeyed, configured []string, dry bool) error {
	w := cmd.OutOrStdout()
	if f.json {
		return printJSON(w, out)
	}
	verb := "were sealed anew"
	if dry {
		verb = "would be sealed anew"
	}
	fmt.Fprintf(w, "%d of %d values under other keys %s under %q", out.Sealed, out.Looked, verb, out.Current)
	if out.Changed > 0 {
		fmt.Fprintf(w, "; %d were changed by the service meanwhile", out.Changed)
	}
	fmt.Fprintf(w, ".\nIn use, values by key: %s.\n", out.InUse)
	var idle []string
	for _, id := range configured {
		if out.InUse[id] == 0 && id != out.Current {
			idle = append(idle, id)
		}
	}
	switch {
	case len(idle) > 0:
		fmt.Fprintf(w, "Nothing is sealed under %s any more: take it out of AJO_ENCRYPTION_KEYS once every process seals with %q. Keep it for the backups.\n",
			strings.Join(idle, ", "), out.Current)
	case out.InUse.Others(out.Current) > 0 && !dry:
		fmt.Fprintln(w, "Older keys are still in use: take none of them away, and run this again.")
	}
	if len(out.Problems) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return printTable(w, out.Problems, func(p rekey.Problem) []field {
		return []field{{"COLUMN", p.Column}, {"KEY", p.Key}, {"VALUES", strconv.Itoa(p.Values)}, {"FIRST ROW", p.Row.String()}, {"WHY NOT", p.Why}}
	})
}

// progressTo says on stderr how far a run has come, every two seconds at most.
func progressTo(cmd *cobra.Command) func(rekey.Column, int, int) {
	said := time.Now()
	return func(c rekey.Column, looked, sealed int) {
		if time.Since(said) >= 2*time.Second {
			said = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d values looked at, %d sealed anew\n", c, looked, sealed)
		}
	}
}
