package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"ajo/internal/secret"
)

// password is AJO_PASSWORD, or what a person types.
func password(ctx context.Context, in io.Reader, out io.Writer, getenv func(string) string) (secret.Redacted, error) {
	if p := getenv("AJO_PASSWORD"); p != "" {
		return secret.Redact(p), nil
	}
	if !isTerminal(in) {
		return secret.Redacted{}, errors.New("there is no terminal to ask for the password on: put it into AJO_PASSWORD")
	}
	return ask(ctx, in, out, "Password: ")
}

// ask is what a person types after a prompt: unseen, where the terminal can do that.
func ask(ctx context.Context, in io.Reader, out io.Writer, prompt string) (secret.Redacted, error) {
	fmt.Fprint(out, prompt)
	if echo(in, "-echo") == nil {
		defer func() {
			_ = echo(in, "echo")
			fmt.Fprintln(out)
		}()
	}
	typed := make(chan string, 1)
	failed := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			failed <- fmt.Errorf("reading the answer: %w", err)
			return
		}
		typed <- strings.TrimRight(line, "\r\n")
	}()
	select {
	case line := <-typed:
		return secret.Redact(line), nil
	case err := <-failed:
		return secret.Redacted{}, err
	case <-ctx.Done(): // Ctrl-C; the terminal shows again what is typed
		return secret.Redacted{}, ctx.Err()
	}
}

// echo has the terminal show what is typed, or not.
func echo(in io.Reader, mode string) error {
	f, ok := in.(*os.File)
	if !ok {
		return errors.New("no terminal")
	}
	cmd := exec.Command("stty", mode)
	cmd.Stdin = f
	return cmd.Run()
}
