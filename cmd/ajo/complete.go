package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/page"
)

// addChoice adds a flag with known values: the help names them, and a shell's Tab completes them.
func addChoice[S ~string](cmd *cobra.Command, to *string, flag string, values ...S) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	last := len(names) - 1
	cmd.Flags().StringVar(to, flag, "", strings.Join(names[:last], ", ")+" or "+names[last])
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)))
}

// addTenant adds --tenant: whose, by id or e-mail.
func (t *tool) addTenant(cmd *cobra.Command, to *string, usage string) {
	cmd.Flags().StringVar(to, "tenant", "", usage)
	must(cmd.RegisterFlagCompletionFunc("tenant", func(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
		return t.tenants()(cmd, nil, text)
	}))
}

// must panics: the flag is not there, or has its completion.
func must(err error) {
	if err != nil {
		panic(err)
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
