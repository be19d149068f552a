package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/page"
)

// command is what the descriptions of a list, of a show and of a change have in common.
type command struct {
	use, short, long, example string
	complete                  cobra.CompletionFunc // completes the first argument
	flags                     func(cmd *cobra.Command)
}

func (c command) cobra(args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: c.use, Short: c.short, Long: c.long, Example: c.example, ValidArgsFunction: c.complete, Args: args, RunE: run}
}

func (c command) addFlags(cmd *cobra.Command) {
	if c.flags != nil {
		c.flags(cmd)
	}
}

// listing describes a command that prints a page of something, newest first.
type listing[T any] struct {
	command
	args  cobra.PositionalArgs // none, unless it is set
	whole bool                 // all is printed at once: it has no --limit and no --after
	read  func(ctx context.Context, tools *app.Tools, args []string, r page.Request) ([]T, page.Info, error)
	row   func(item T, now time.Time) []field // the columns; now, by Postgres' clock, is for ages
	// what is older than this may be archived, and so was not read; nil: nothing is
	archivedBefore func() *time.Time
	note           func(items []T) string // what must be known of these rows; nil or "": nothing
}

// list is how every list is printed as JSON.
type list[T any] struct {
	Items          []T        `json:"items"`
	Pagination     page.Info  `json:"pagination"`
	ArchivedBefore *time.Time `json:"archivedBefore,omitempty"` // what is older may be archived, and in no list
	Note           string     `json:"note,omitempty"`
}

// newListCmd makes a list: a page as JSON, or as a table with the cursor of the next page below.
func newListCmd[T any](t *tool, l listing[T]) *cobra.Command {
	var limit int
	var after string
	var asJSON bool
	l.use = cmp.Or(l.use, "list")
	if l.args == nil {
		l.args = cobra.NoArgs
	}
	cmd := l.cobra(l.args, func(cmd *cobra.Command, args []string) error {
		r, err := page.New(limit, after)
		if err != nil {
			return err
		}
		return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
			items, info, err := l.read(ctx, tools, args, r)
			for err == nil && len(items) == 0 && info.HasMore { // a page looks at so many rows only
				r.After = *info.NextCursor
				items, info, err = l.read(ctx, tools, args, r)
			}
			if err != nil {
				return err
			}
			var note string
			if l.note != nil {
				note = l.note(items)
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				shown := list[T]{Items: append([]T{}, items...), Pagination: info, Note: note} // [] of none
				if l.archivedBefore != nil {
					shown.ArchivedBefore = l.archivedBefore()
				}
				return printJSON(out, shown)
			case len(items) == 0:
				fmt.Fprintln(out, "none")
				return nil
			}
			now := tools.Now()
			if err := printTable(out, items, func(item T) []field { return l.row(item, now) }); err != nil {
				return err
			}
			if note != "" {
				fmt.Fprintln(out, note)
			}
			if info.NextCursor == nil {
				return nil
			}
			fmt.Fprintf(out, "next page: --after %s\n", *info.NextCursor)
			return nil
		})
	})
	l.addFlags(cmd)
	if limit = page.DefaultList; !l.whole {
		cmd.Flags().IntVar(&limit, "limit", limit, "rows, from 1 to "+strconv.Itoa(page.Max))
		cmd.Flags().StringVar(&after, "after", "", "cursor of the page before")
	}
	addJSON(cmd, &asJSON)
	return cmd
}

// showing describes a command that prints one thing, such as what its argument names.
type showing[T any] struct {
	command
	args  cobra.PositionalArgs // one argument, unless it is set
	read  func(ctx context.Context, tools *app.Tools, arg string) (T, error)
	print func(w io.Writer, v T) error
	ends  func(v T) error // says whether what was printed is a failure; nil: it is none
}

func newShowCmd[T any](t *tool, s showing[T]) *cobra.Command {
	var asJSON bool
	if s.args == nil {
		s.args = cobra.ExactArgs(1)
	}
	cmd := s.cobra(s.args, func(cmd *cobra.Command, args []string) error { return s.run(t, cmd, args, asJSON) })
	addJSON(cmd, &asJSON)
	s.addFlags(cmd)
	return cmd
}

func (s showing[T]) run(t *tool, cmd *cobra.Command, args []string, asJSON bool) error {
	return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
		v, err := s.read(ctx, tools, strings.Join(args, ""))
		switch {
		case err != nil:
			return err
		case asJSON:
			err = printJSON(cmd.OutOrStdout(), v)
		default:
			err = s.print(cmd.OutOrStdout(), v)
		}
		if err != nil || s.ends == nil {
			return err
		}
		return s.ends(v)
	})
}

// addSummary gives a list the flag --summary, with which it shows s in its place. The flags in
// without go with the list alone.
func addSummary[T any](t *tool, cmd *cobra.Command, usage string, without []string, s showing[T]) *cobra.Command {
	var summary bool
	cmd.Flags().BoolVar(&summary, "summary", false, usage)
	for _, flag := range without {
		cmd.MarkFlagsMutuallyExclusive("summary", flag)
	}
	list := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !summary {
			return list(cmd, args)
		}
		asJSON, _ := cmd.Flags().GetBool("json")
		return s.run(t, cmd, args, asJSON)
	}
	return cmd
}

// change describes a command that changes something for a reason that is kept in the audit log.
type change struct {
	command
	args    cobra.PositionalArgs // one argument, unless it is set
	unasked bool                 // made without confirmation
	// moves: what its sentence says moves by itself while it is read, such as a balance or when
	// work is due, and the change is made all the same: it stops money, or decides nothing.
	moves bool
	// plan checks the arguments and reads what is to be changed. It changes nothing.
	plan func(ctx context.Context, tools *app.Tools, args []string) (plan, error)
}

// plan is a change before it is made.
type plan struct {
	will string // what happens, as a sentence
	do   func(by audit.By) (result, error)
	// enqueues says that tasks follow: the operator is told when they did not reach Redis.
	enqueues bool
	noChange *result // it is so already: this is printed, and nothing is asked or done
}

// result is what a change prints.
type result struct {
	value any    // with --json
	text  string // without
	note  string // before it, on stderr; usually empty
}

// done is a result with a formatted text. Beside an error it counts for nothing.
func done(value any, format string, args ...any) result {
	return result{value: value, text: fmt.Sprintf(format, args...)}
}

// newChangeCmd makes a change: reads, says what will happen, asks, and does it. The audit line is
// written by the change's own transaction.
func (t *tool) newChangeCmd(c change) *cobra.Command {
	var f changeFlags
	if c.args == nil {
		c.args = cobra.ExactArgs(1)
	}
	cmd := c.cobra(c.args, func(cmd *cobra.Command, args []string) error {
		if t.inside != nil {
			return t.inside.change(cmd.Context(), c, args)
		}
		by, err := f.by()
		if err != nil {
			return err
		}
		return t.with(cmd, func(ctx context.Context, tools *app.Tools) error {
			p, err := c.plan(ctx, tools, args)
			if err == nil && p.noChange == nil && !c.unasked {
				if err = f.confirm(cmd, p.will); err == nil && !f.yes && !c.moves {
					p, err = c.planAgain(ctx, tools, args, p.will)
				}
			}
			switch {
			case err != nil:
				return err
			case p.noChange != nil:
				return f.print(cmd, *p.noChange)
			}
			r, err := p.do(by)
			if err != nil {
				return err
			}
			if p.enqueues {
				noteEnqueued(cmd, tools)
			}
			return f.print(cmd, r)
		})
	})
	c.addFlags(cmd)
	f.addReason(cmd)
	if !c.unasked {
		f.addYes(cmd)
	}
	return cmd
}

// planAgain plans a change anew after a person has agreed to a sentence, who may have thought about
// it for long: what the first plan read may be somebody else's by now, and would be written over.
// It refuses if the change is not the one any more that was agreed to.
func (c change) planAgain(ctx context.Context, tools *app.Tools, args []string, saw string) (plan, error) {
	p, err := c.plan(ctx, tools, args)
	if err == nil && p.noChange == nil && p.will != saw {
		err = errChanged
	}
	return p, err
}

// noteEnqueued says so on stderr when a task did not reach Redis.
func noteEnqueued(cmd *cobra.Command, tools *app.Tools) {
	if !tools.Enqueued() {
		fmt.Fprintln(cmd.ErrOrStderr(), notEnqueued)
	}
}

var (
	errNotEnqueued = errors.New("the task was not enqueued (AJO_REDIS_URL): a worker finds the work at its next sweep")
	notEnqueued    = title(errNotEnqueued.Error()) + "."
)

// changeFlags are those of every command that changes something.
type changeFlags struct {
	reason string
	yes    bool
	json   bool
}

func (f *changeFlags) addReason(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "why this is done; kept in the audit log (required)")
	addJSON(cmd, &f.json)
}

func (f *changeFlags) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do it without asking; required where there is no terminal")
}

// by says who runs this program and why, or refuses.
func (f *changeFlags) by() (audit.By, error) {
	by := audit.By{Actor: "cli:" + osUser(), Reason: f.reason}
	if err := by.Check(); err != nil {
		return by, fmt.Errorf("--reason: %w", err)
	}
	return by, nil
}

// Why a change was not made.
var (
	errUnasked = errors.New("nothing was changed: there is no terminal to ask on; pass --yes to do it")
	errRefused = errors.New("nothing was changed")
	errChanged = errors.New("nothing was changed: what would happen has changed since you were asked; run the command again")
)

// confirm says what will be done, and asks. The sentence goes to stderr, so that stdout is the
// result alone.
func (f *changeFlags) confirm(cmd *cobra.Command, will string) error {
	out := cmd.ErrOrStderr()
	fmt.Fprintln(out, printable(will))
	if f.yes {
		return nil
	}
	if !isTerminal(cmd.InOrStdin()) {
		return errUnasked
	}
	fmt.Fprint(out, "Proceed? [y/N] ")
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return errRefused
}

func (f *changeFlags) print(cmd *cobra.Command, r result) error {
	if r.note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), printable(r.note))
	}
	if f.json {
		return printJSON(cmd.OutOrStdout(), r.value)
	}
	fmt.Fprintln(cmd.OutOrStdout(), printable(r.text))
	return nil
}

func addJSON(cmd *cobra.Command, json *bool) {
	cmd.Flags().BoolVar(json, "json", false, "print JSON instead of text")
}

// parseID reads a UUID; what names it in the refusal.
func parseID(what, s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return id, fmt.Errorf("%s must be a UUID, not %q", what, s)
	}
	return id, nil
}

// byID reads a record by an argument that must be a UUID.
func byID[T any](what string, read func(ctx context.Context, tools *app.Tools, id uuid.UUID) (T, error)) func(context.Context, *app.Tools, string) (T, error) {
	return func(ctx context.Context, tools *app.Tools, arg string) (v T, err error) {
		id, err := parseID(what, arg)
		if err != nil {
			return v, err
		}
		return read(ctx, tools, id)
	}
}

// planByID is the plan of a change whose first argument must be a UUID.
func planByID(what string, read func(ctx context.Context, tools *app.Tools, id uuid.UUID) (plan, error)) func(context.Context, *app.Tools, []string) (plan, error) {
	return func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
		return byID(what, read)(ctx, tools, args[0])
	}
}
