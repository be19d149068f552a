package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// A time is what it says, by the zone that it names, or so far from now; a day begins by its zone.
func TestFlagsOfTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		ahead      bool
		text, want string // "": it is refused
	}{
		{false, "2h", "2026-11-28T07:00:00Z"},
		{false, "0s", "2026-11-28T09:00:00Z"},
		{false, "2026-11-27", "2026-11-27T00:00:00Z"},
		{false, "2026-11-27 12:30", "2026-11-27T12:30:00Z"},
		{false, "2026-11-27T12:30:05", "2026-11-27T12:30:05Z"},
		{false, "2026-11-27T12:30:00+01:00", "2026-11-27T11:30:00Z"},
		{false, "-2h", ""},
		{false, "", ""},
		{true, "2h", "2026-11-28T11:00:00Z"},
		{true, "2026-11-29T12:30:00+01:00", "2026-11-29T11:30:00Z"},
		{true, "2026-11-29", ""},
		{true, "2026-11-29T12:30:00", ""},
		{true, "-2h", ""},
	} {
		f := whenFlag{ahead: c.ahead}
		err := f.Set(c.text)
		if c.want == "" {
			require.Error(t, err, c.text)
			require.Nil(t, f.at, c.text)
			continue
		}
		require.NoError(t, err, c.text)
		require.Equal(t, c.want, f.at(now).Format(time.RFC3339), c.text)
		require.Equal(t, c.text, f.String())
	}
	for utc, want := range map[bool]string{true: "2026-11-28T00:00:00Z", false: "2026-11-27T23:00:00Z"} {
		f := dayFlag{utc: utc}
		require.Empty(t, f.String())
		require.NoError(t, f.Set("2026-11-28"))
		require.Equal(t, want, f.at.UTC().Format(time.RFC3339))
		require.Equal(t, "2026-11-28", f.String())
	}
}

// A refusal names the flag, what it must be, and what it was, once. Others stay as they are.
func TestFlagsRefuse(t *testing.T) {
	t.Parallel()
	for args, want := range map[[2]string]string{
		{"--sum", ""}:      `--sum must be a sum of naira, such as 1250.50, not ""`,
		{"--limit", "NaN"}: `--limit must be a sum of naira, such as 1250.50, or "none", not "NaN"`,
		{"--day", "today"}: `--day must be a day in Lagos, such as 2026-10-31, not "today"`,
		{"--utc", "today"}: `--utc must be a day in UTC, such as 2026-10-31, not "today"`,
		{"--when", "soon"}: `--when must be a time, such as 2026-03-01T09:00:00Z, a day in UTC, or how long ago, such as 2h, not "soon"`,
		{"--n", "x"}:       `invalid argument "x" for "--n" flag: strconv.ParseInt: parsing "x": invalid syntax`,
	} {
		cmd := &cobra.Command{SilenceUsage: true, SilenceErrors: true, Run: func(*cobra.Command, []string) { t.Error("it runs") }}
		addFlag(cmd, &sumFlag{}, "sum", "")
		addFlag(cmd, &limitFlag{}, "limit", "")
		addFlag(cmd, &dayFlag{}, "day", "")
		addFlag(cmd, &dayFlag{utc: true}, "utc", "")
		addFlag(cmd, &whenFlag{}, "when", "")
		cmd.Flags().Int("n", 0, "")
		cmd.SetArgs(args[:])
		require.EqualError(t, cmd.Execute(), want)
	}
}
