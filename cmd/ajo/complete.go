package main

import (
	"context"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/page"
)

// oneOf gives a flag the values that a shell's Tab offers.
func oneOf(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag, or it has its values
	}
}

// complete reads from the service what a shell's Tab offers; where that fails it offers nothing.
func (t *tool) complete(read func(ctx context.Context, tools *app.Tools, r page.Request) ([]string, error)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var found []string
		err := t.with(cmd, func(ctx context.Context, tools *app.Tools) (err error) {
			found, err = read(ctx, tools, page.Request{Limit: page.Max})
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// tenants offers the e-mails of the newest tenants, with their names.
func (t *tool) tenants() cobra.CompletionFunc {
	return t.complete(func(ctx context.Context, tools *app.Tools, r page.Request) (out []string, err error) {
		list, _, err := tools.Tenants.List(ctx, "", r)
		for _, v := range list {
			out = append(out, cobra.CompletionWithDesc(v.Email, printable(v.Name)))
		}
		return out, err
	})
}

// ofTenant gives --tenant its values.
func (t *tool) ofTenant(cmd *cobra.Command) {
	if err := cmd.RegisterFlagCompletionFunc("tenant", func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return t.tenants()(cmd, nil, text)
	}); err != nil {
		panic(err)
	}
}

// reviews offers the payments under review.
func (t *tool) reviews() cobra.CompletionFunc {
	return t.complete(func(ctx context.Context, tools *app.Tools, r page.Request) (out []string, err error) {
		list, _, err := tools.Payments.Reviews(ctx, r)
		for _, v := range list {
			out = append(out, cobra.CompletionWithDesc(v.EventID.String(), printable("NGN "+v.Amount.String()+" to "+v.AccountRef+" of "+v.TenantName)))
		}
		return out, err
	})
}
