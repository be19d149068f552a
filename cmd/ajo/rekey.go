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
		Short: "Encrypt every stored secret again with the first of AJO_ENCRYPTION_KEYS",
		Long: `Encrypts BVNs, NINs, signing secrets and codes that another key has encrypted with the first key of AJO_ENCRYPTION_KEYS,
in batches, while the service runs. You can stop it and run it again; what is done stays done. At the end it prints the
keys that are still in use, so that you can remove the others from the settings: docs/operations.md has the steps. Exit
code 1 when a value could not be decrypted; it stays as it is, and its row and key are printed.`,
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
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only decrypt every value that would be encrypted again, and count")
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
		if err = f.confirm(cmd, fmt.Sprintf("Encrypt %d values again with the key %q (values by key: %s).", others, current, before)); err != nil {
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
	verb := "were encrypted again"
	if dry {
		verb = "would be encrypted again"
	}
	fmt.Fprintf(w, "%d of %d values of other keys %s with %q", out.Sealed, out.Looked, verb, out.Current)
	if out.Changed > 0 {
		fmt.Fprintf(w, "; the service changed %d meanwhile", out.Changed)
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
		fmt.Fprintf(w, "Nothing is encrypted with %s any more: remove it from AJO_ENCRYPTION_KEYS once every process encrypts with %q. Keep it for the backups.\n",
			strings.Join(idle, ", "), out.Current)
	case out.InUse.Others(out.Current) > 0 && !dry:
		fmt.Fprintln(w, "Older keys are still in use: do not remove them, and run this again.")
	}
	if len(out.Problems) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	return printTable(w, out.Problems, func(p rekey.Problem) []field {
		return []field{{"COLUMN", p.Column}, {"KEY", p.Key}, {"VALUES", strconv.Itoa(p.Values)}, {"FIRST ROW", p.Row.String()}, {"WHY NOT", p.Why}}
	})
}

// progressTo prints the progress of a run to stderr, at most every two seconds.
func progressTo(cmd *cobra.Command) func(rekey.Column, int, int) {
	said := time.Now()
	return func(c rekey.Column, looked, sealed int) {
		if time.Since(said) >= 2*time.Second {
			said = time.Now()
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d values checked, %d encrypted again\n", c, looked, sealed)
		}
	}
}
