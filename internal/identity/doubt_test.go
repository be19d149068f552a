package identity_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ajo/internal/clock"
	"ajo/internal/identity"
)

// finding is a service that knows the NINs of some, and finds them under another name.
type finding map[string]bool

func (f finding) CheckNIN(_ context.Context, nin, _ string) (identity.Result, error) {
	if f[nin] {
		return identity.Mismatch, nil
	}
	return identity.NoSuch, nil
}

// doubted is a service that doubts, and what it says of a person's NIN.
func doubted(t *testing.T, known finding) (check func(nin, name string) string, now *clock.Fake, observed *int) {
	now, observed = clock.NewFake(time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)), new(int)
	d := &identity.Doubting{Checker: known, Clock: now, Log: slog.New(slog.DiscardHandler), Observe: func(string) { *observed++ }}
	return func(nin, name string) string {
		r, err := d.CheckNIN(t.Context(), nin, name)
		if err != nil {
			require.ErrorIs(t, err, identity.ErrUnavailable)
			return "doubted"
		}
		return r.String()
	}, now, observed
}

// nobodys is the NIN of the nth person whom the service does not find, and the name.
func nobodys(n int) (nin, name string) {
	return fmt.Sprintf("7000000%04d", n), fmt.Sprintf("Ada Obi %d", n)
}

// A service that finds nobody is not believed after a few people: the customers wait for a person
// until it finds somebody again.
func TestServiceThatFindsNobodyIsNotBelieved(t *testing.T) {
	t.Parallel()
	check, now, observed := doubted(t, finding{"70123456789": true})
	for n := range 4 {
		require.Equal(t, "no_such", check(nobodys(n)))
	}
	for n := range 12 { // those of before, too
		now.Advance(10 * time.Minute)
		require.Equal(t, "doubted", check(nobodys(11-n)), n)
	}
	require.Equal(t, 12, *observed)
	require.Equal(t, "mismatch", check("70123456789", "Bola Ade"))
	for n := range 4 {
		require.Equal(t, "no_such", check(nobodys(n)))
	}
	require.Equal(t, "doubted", check(nobodys(4)))
}

// One customer's typing errors, and one NIN under many names, raise no doubt about others.
func TestTypingErrorsOfOneRaiseNoDoubt(t *testing.T) {
	t.Parallel()
	check, _, observed := doubted(t, nil)
	for n := range 8 {
		nin, name := nobodys(n)
		require.Equal(t, "no_such", check("70000009999", "Chi Eze"))
		require.Equal(t, "no_such", check(nin, "Chi Eze"))
		require.Equal(t, "no_such", check("70000009999", name))
	}
	for n := range 3 {
		require.Equal(t, "no_such", check(nobodys(n)))
	}
	require.Zero(t, *observed)
	require.Equal(t, "doubted", check(nobodys(3)), "the fifth person")
}

// An unknown NIN counts for an hour.
func TestUnknownNINsCountForAnHour(t *testing.T) {
	t.Parallel()
	check, now, _ := doubted(t, nil)
	for n := range 4 {
		require.Equal(t, "no_such", check(nobodys(n)))
	}
	now.Advance(time.Hour - time.Second)
	require.Equal(t, "doubted", check(nobodys(4)))
	now.Advance(time.Second)
	require.Equal(t, "no_such", check(nobodys(5)), "the first four are an hour old")
}
