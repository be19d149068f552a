package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPassword(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	ask := func(ctx context.Context, in io.Reader, getenv func(string) string) (string, string, error) {
		var out bytes.Buffer
		p, err := password(ctx, in, &out, getenv)
		return p.Reveal(), out.String(), err
	}
	ctx, cancel := context.WithCancel(context.Background())
	got, asked, err := ask(ctx, types(" correct horse \r\n"), none)
	require.NoError(t, err)
	require.Equal(t, " correct horse ", got, "spaces belong to it")
	require.Equal(t, "Password: ", asked)
	got, asked, err = ask(ctx, types("typed\n"), func(name string) string { return "of " + name })
	require.NoError(t, err)
	require.Equal(t, "of AJO_PASSWORD", got)
	require.Empty(t, asked, "there is nothing to ask")
	_, _, err = ask(ctx, strings.NewReader("piped\n"), none)
	require.ErrorContains(t, err, "put it into AJO_PASSWORD")
	_, _, err = ask(ctx, types("cut"), none)
	require.ErrorIs(t, err, io.EOF)

	never, w := io.Pipe()
	defer func() { _ = w.Close() }()
	cancel()
	_, _, err = ask(ctx, terminal{never}, none)
	require.ErrorIs(t, err, context.Canceled, "Ctrl-C")
}
