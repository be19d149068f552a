package testenv

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/uuid"

	"ajo/internal/page"
)

// Pages reads a list to its end, and returns the rows of each page. A list of a hundred pages fails
// the test.
func Pages[T any](t testing.TB, limit int, read func(page.Request) ([]T, page.Info, error)) (pages [][]T) {
	t.Helper()
	r := page.Request{Limit: limit}
	for range 100 {
		rows, info, err := read(r)
		must(t, err)
		pages = append(pages, rows)
		if !info.HasMore {
			return pages
		}
		r.After = *info.NextCursor
	}
	t.Fatal("testenv: the list has no end")
	return nil
}

// IDsAfter is an SQL expression of random ids, all of which come after id in the order of time: for
// the rows that a page of a list has to look at before it comes to id's ([pg.ScanLimit]).
func IDsAfter(id uuid.UUID) string {
	later := uuid.Must(uuid.NewV7())
	for bytes.Compare(later[:6], id[:6]) <= 0 {
		later = uuid.Must(uuid.NewV7())
	}
	return fmt.Sprintf("overlay(gen_random_uuid()::text PLACING '%s' FROM 1)::uuid", later.String()[:15])
}
