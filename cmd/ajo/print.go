package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"ajo/internal/page"
)

// list is how every list is printed as JSON.
type list[T any] struct {
	Items      []T       `json:"items"`
	Pagination page.Info `json:"pagination"`
}

// printList prints a page, as JSON or as a table with the cursor of the next page below it.
func printList[T any](cmd *cobra.Command, f listFlags, items []T, info page.Info, header string, row func(T) []string) error {
	if f.json {
		if items == nil {
			items = []T{}
		}
		return printJSON(cmd, list[T]{Items: items, Pagination: info})
	}
	if len(items) == 0 {
		fmt.Fprintln(cmd.OutOrStdout(), "none")
		return nil
	}
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	if err := printTable(cmd.OutOrStdout(), header, rows); err != nil {
		return err
	}
	if info.NextCursor != nil {
		fmt.Fprintf(cmd.OutOrStdout(), "more with --after %s\n", *info.NextCursor)
	}
	return nil
}

// printTable prints rows under a header of column names, which are parted by commas.
func printTable(w io.Writer, header string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ReplaceAll(header, ",", "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
			if row[i] == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// field is one line of what a show command prints.
type field struct{ name, value string }

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

func printJSON(cmd *cobra.Command, v any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
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

// stamp is a time to the second, in UTC; "" for none.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// age is how long ago t was, in the two largest units.
func age(t time.Time) string {
	d := max(0, time.Since(t))
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
