package errs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, "Ọlá": true, "abcd": false, "a b": true, "a\nb": false, "a\x00b": false, "\u0085": false, "\xff": false,
	} {
		require.Equal(t, want, Plain(text, 3), "%q", text)
	}
}
