package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
)

// field is a named value: a line of what a show command prints, or a cell of a table.
type field struct{ name, value string }

// printTable prints a row for each item, under the names of the first one's fields.
func printTable[T any](w io.Writer, items []T, row func(T) []field) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, item := range items {
		var names, cells []string
		for _, f := range row(item) {
			names, cells = append(names, f.name), append(cells, cmp.Or(printable(f.value), "-"))
		}
		if i == 0 {
			fmt.Fprintln(t, strings.Join(names, "\t"))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// printFields prints a record, a field a line; empty ones are left out.
func printFields(w io.Writer, fields ...field) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		if v := printable(f.value); v != "" {
			fmt.Fprintf(t, "%s\t%s\n", f.name, v)
		}
	}
	return t.Flush()
}

// printJSON prints a value with what is not printable written as JSON escapes: the encoder does so
// with the control characters of ASCII alone, and a terminal obeys others too, such as U+009B.
func printJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	var out strings.Builder
	for _, r := range b.String() {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// printable makes text of foreign hands (narrations, receivers' answers) safe for a terminal and
// for one line: what is not printable, such as the escape character or a change of writing
// direction, becomes a space.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
}

// printableLines is [printable] for a text of several lines, such as an error that names many.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	return strings.Join(lines, "\n")
}

// optional is a value's text; "" for none.
func optional[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// stamp is a time to the second, in UTC; "" for none.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// age is how long before now t was, in the two largest units.
func age(now, t time.Time) string { return lasting(now.Sub(t)) }

// lasting is a duration in its two largest units.
func lasting(d time.Duration) string {
	d = max(0, d)
	days, hours, minutes := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm", minutes)
	}
	return strconv.Itoa(int(d.Seconds())) + "s"
}

// cut shortens a text for a table's cell.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// title is a word at the beginning of a sentence.
func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
