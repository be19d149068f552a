package identity_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"ajo/internal/identity"
)

type scripted []identity.Result

func (s *scripted) CheckNIN(context.Context, string, string) (identity.Result, error) {
	r := (*s)[0]
	*s = (*s)[1:]
	return r, nil
}

// A service that finds nobody is not believed after a few: the customers wait for a person until it
// finds somebody again.
func TestServiceThatFindsNobodyIsNotBelieved(t *testing.T) {
	t.Parallel()
	answers := scripted{
		identity.NoSuch, identity.NoSuch, identity.NoSuch, identity.NoSuch, identity.NoSuch, identity.NoSuch,
		identity.Mismatch, identity.NoSuch,
	}
	doubted := 0
	d := &identity.Doubting{Checker: &answers, Log: slog.New(slog.DiscardHandler), Observe: func(string) { doubted++ }}
	var got []string
	for range 8 {
		r, err := d.CheckNIN(t.Context(), "70123456789", "Ada Obi")
		if err != nil {
			require.ErrorIs(t, err, identity.ErrUnavailable)
		}
		got = append(got, r.String())
	}
	require.Equal(t, []string{"no_such", "no_such", "no_such", "no_such", "none", "none", "mismatch", "no_such"}, got)
	require.Equal(t, 2, doubted)
}
