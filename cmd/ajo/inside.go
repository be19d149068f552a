package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"ajo/internal/app"
	"ajo/internal/console"
	"ajo/internal/errs"
	"ajo/internal/pg"
)

// inside is a command that the console runs in its own process: with tools that stay open, for an
// operator who has logged in there.
type inside struct {
	tools  *app.Tools
	call   console.Call
	answer console.Answer
}

// runInside runs a command for the console ([app.Commands]). What the command line would ask on the
// terminal, the console's page has asked. A refusal of the command itself, such as an argument that
// is no UUID, has its own text; a fault is an error that is no refusal.
func runInside(ctx context.Context, tools *app.Tools, call console.Call) (console.Answer, error) {
	in := &inside{tools: tools, call: call}
	root := &cobra.Command{Use: "ajo", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand((&tool{getenv: func(string) string { return "" }, inside: in}).commands()...)
	args := strings.Fields(call.Command)
	for name, v := range call.Flags {
		args = append(args, "--"+name+"="+v)
	}
	var out bytes.Buffer
	root.SetIn(strings.NewReader(""))
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetArgs(append(append(args, "--json", "--"), call.Args...))
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case errors.As(err, &code): // it has printed what it has found
		err = nil
	case err != nil && errs.As(err) == nil && !isFault(err):
		err = errs.New(errs.Unprocessable, err.Error())
	}
	in.answer.JSON = out.Bytes()
	return in.answer, err
}

// isFault reports whether the database or the network failed, and not what was asked for.
func isFault(err error) bool {
	var network net.Error
	return pg.Code(err) != "" || errors.As(err, &network) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// change plans a change, and makes it for an operator who has been shown what it does, as long as
// it still does that.
func (in *inside) change(ctx context.Context, c change, args []string) error {
	p, err := c.plan(ctx, in.tools, args)
	switch {
	case err != nil:
		return err
	case p.noChange != nil:
		in.answer = console.Answer{Text: p.noChange.text, Note: p.noChange.note, Idle: true}
		return nil
	case in.call.Saw == "":
		in.answer = console.Answer{Will: p.will}
		return nil
	case !c.moves && in.call.Saw != p.will:
		return console.ErrChanged
	}
	r, err := p.do(in.call.By)
	if err != nil {
		return err
	}
	in.answer = console.Answer{Text: r.text, Note: r.note}
	if p.enqueues && !in.tools.Enqueued() {
		in.answer.Note = strings.TrimSpace(fmt.Sprintf("%s %s", r.note, notEnqueued))
	}
	return nil
}
