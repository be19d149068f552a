package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/audit"
	"ajo/internal/operator"
	"ajo/internal/page"
)

func (t *tool) newOperatorsCmd() *cobra.Command {
	return group("operator", "Create and remove the accounts of people who log in to the console", t.newOperatorAddCmd(), t.newOperatorListCmd(), t.newOperatorResetCmd(), t.newOperatorRemoveCmd())
}

// invited is what is printed of an invitation: the code is nowhere else.
type invited struct {
	Name      string        `json:"name"`
	Role      operator.Role `json:"role"`
	Code      string        `json:"code"`
	ExpiresAt string        `json:"expiresAt"`
}

func doneInviting(i operator.Invitation) result {
	v := invited{i.Name, i.Role, i.Code.Reveal(), stamp(&i.ExpiresAt)}
	return done(v, "%s (%s) chooses a password under /console on the operations address, until %s, with this set-up code, which is shown once:\n%s", v.Name, v.Role, v.ExpiresAt, v.Code)
}

func (t *tool) newOperatorAddCmd() *cobra.Command {
	role := string(operator.Viewer)
	return t.newChangeCmd(change{
		command: command{
			use: "add <name>", short: "Create an account for the console",
			long: `Creates an account for the console on the operations port, and prints a set-up code, once. With the code, the person chooses a password
and sets up a second factor; whoever runs this command learns neither. A viewer sees everything and changes nothing; an operator can do what
the command line does, except operator, archive, rekey and tenant login-link. The audit log calls the person console:<name>. Needs AJO_ENCRYPTION_KEYS.`,
			example: `  ajo operator add ada --role operator --reason "joins the payments desk"`,
			flags:   func(cmd *cobra.Command) { cmd.Flags().StringVar(&role, "role", role, "viewer or operator") },
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			if err := tools.CanSeal(); err != nil {
				return plan{}, err
			}
			return plan{
				will: fmt.Sprintf("Make an account for %q with the role %s.", args[0], role),
				do: func(by audit.By) (result, error) {
					i, err := tools.Operators.Add(ctx, args[0], operator.Role(role), by)
					return doneInviting(i), err
				},
			}, tools.Operators.Check(ctx, args[0], operator.Role(role))
		},
	})
}

func (t *tool) newOperatorListCmd() *cobra.Command {
	return newListCmd(t, listing[operator.Operator]{
		command: command{short: "List the accounts for the console, newest first", example: "  ajo operator list"},
		read: func(ctx context.Context, tools *app.Tools, _ []string, r page.Request) ([]operator.Operator, page.Info, error) {
			return tools.Operators.List(ctx, r)
		},
		row: func(o operator.Operator, now time.Time) []field {
			return []field{
				{"NAME", o.Name},
				{"ROLE", string(o.Role)},
				{"AGE", age(now, o.CreatedAt)},
				{"SET UP", stamp(o.SetUpAt)},
				{"SESSIONS", fmt.Sprint(o.Sessions)},
				{"REMOVED", stamp(o.RemovedAt)},
			}
		},
	})
}

func (t *tool) newOperatorResetCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "reset <name>", short: "Reset an operator's password and second factor, and print a new set-up code",
			long:    "Ends the operator's sessions, password and second factor, and prints a new set-up code, once. First make sure who is asking.",
			example: `  ajo operator reset ada --reason "ticket 4711: a new phone; called back on the known number"`,
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			o, err := tools.Operators.Find(ctx, args[0])
			return plan{
				will: fmt.Sprintf("Take the password and the second factor of %q (%s) away, and end %d open sessions.", o.Name, o.Role, o.Sessions),
				do: func(by audit.By) (result, error) {
					i, err := tools.Operators.Reset(ctx, args[0], by)
					return doneInviting(i), err
				},
			}, err
		},
	})
}

func (t *tool) newOperatorRemoveCmd() *cobra.Command {
	return t.newChangeCmd(change{
		command: command{
			use: "remove <name>", short: "End an account for the console, at once",
			long:    "Removes an account for the console and ends its sessions, at once. The name can be used again for a new account.",
			example: `  ajo operator remove ada --reason "has left"`,
		},
		plan: func(ctx context.Context, tools *app.Tools, args []string) (plan, error) {
			o, err := tools.Operators.Find(ctx, args[0])
			return plan{
				will: fmt.Sprintf("Remove the account of %q (%s), and end %d open sessions.", o.Name, o.Role, o.Sessions),
				do: func(by audit.By) (result, error) {
					return done(o, "The account of %q is removed.", o.Name), tools.Operators.Remove(ctx, args[0], by)
				},
			}, err
		},
	})
}
