package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ajo/internal/clock"
	"ajo/internal/money"
)

// mustBe is what a flag's value must be.
type mustBe string

func (m mustBe) Error() string { return "must be " + string(m) }

// refuse is the refusal of a flag's value.
func refuse(flag string, must mustBe, value string) error {
	return fmt.Errorf("--%s %w, not %q", flag, must, value)
}

// addFlag adds a flag whose type is below. Its refusal is [refuse]'s, without pflag's sentence.
func addFlag(cmd *cobra.Command, v pflag.Value, name, usage string) {
	cmd.Flags().Var(v, name, usage)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		var bad *pflag.InvalidValueError
		var must mustBe
		if errors.As(err, &bad) && errors.As(err, &must) {
			return refuse(bad.GetFlag().Name, must, bad.GetValue())
		}
		return err
	})
}

// sumFlag is a sum of naira.
type sumFlag struct {
	sum *money.Amount // nil: none was given
}

func (f *sumFlag) Set(s string) error {
	a, err := money.Parse(s)
	if err != nil {
		return mustBe("a sum of naira, such as 1250.50")
	}
	f.sum = &a
	return nil
}

func (f *sumFlag) String() string { return optional(f.sum) }

func (f *sumFlag) Type() string { return "naira" }

// noLimit is the value that takes a limit away.
const noLimit = "none"

// limitFlag is a sum of naira, or "none".
type limitFlag struct {
	sumFlag
	given bool
}

func (f *limitFlag) Set(s string) error {
	f.given = true
	if s == noLimit {
		f.sum = nil
		return nil
	}
	if f.sumFlag.Set(s) != nil {
		return mustBe(`a sum of naira, such as 1250.50, or "` + noLimit + `"`)
	}
	return nil
}

// or is the limit that was given; what is not given stays as it was.
func (f *limitFlag) or(was *money.Amount) *money.Amount {
	if f.given {
		return f.sum
	}
	return was
}

// dayFlag is a day: the moment at which it begins.
type dayFlag struct {
	utc  bool // it begins in UTC, as partitions do; otherwise in Lagos
	text string
	at   time.Time // zero: none was given
}

func (f *dayFlag) Set(s string) (err error) {
	zone, parse := "Lagos", clock.ParseDay
	if f.utc {
		zone, parse = "UTC", func(s string) (time.Time, error) { return time.Parse(time.DateOnly, s) }
	}
	if f.at, err = parse(s); err != nil {
		return mustBe("a day in " + zone + ", such as 2026-10-31")
	}
	f.text = s
	return nil
}

func (f *dayFlag) String() string { return f.text }

func (f *dayFlag) Type() string { return "day" }

// whenFlag is a time, or how far it is from now: ago, or ahead. A time ago may have no zone, and is
// in UTC then.
type whenFlag struct {
	ahead bool
	text  string
	at    func(now time.Time) time.Time // nil: none was given
}

func (f *whenFlag) Set(s string) error {
	forms := []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly}
	must := mustBe("a time, such as 2026-03-01T09:00:00Z, a day in UTC, or how long ago, such as 2h")
	sign := time.Duration(-1)
	if f.ahead {
		forms, sign = forms[:1], 1
		must = "a time, such as 2026-03-01T09:00:00Z, or how long from now, such as 2h"
	}
	f.text = s
	for _, form := range forms {
		if t, err := time.Parse(form, s); err == nil {
			f.at = func(time.Time) time.Time { return t.UTC() }
			return nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return must
	}
	f.at = func(now time.Time) time.Time { return now.Add(sign * d) }
	return nil
}

func (f *whenFlag) String() string { return f.text }

func (f *whenFlag) Type() string { return "time" }
