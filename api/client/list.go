package client

import (
	"context"
	"iter"
	"net/url"
	"strconv"
)

// Page says which page of a list is asked for. The zero value is the first one, of the list's usual
// length.
type Page struct {
	Limit int    // rows, from 1 to 100; 0: 20, of statements 50
	After string // the NextCursor of the page before
}

// Pagination says where a list stands.
type Pagination struct {
	Limit      int     `json:"limit"`
	NextCursor *string `json:"nextCursor"` // nil at the end
	HasMore    bool    `json:"hasMore"`
}

// query is the page, and what else is given by name and value, behind a path. Empty values are left
// out.
func (p Page) query(path string, more ...string) string {
	q := url.Values{}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	for i, all := 0, append(more, "after", p.After); i < len(all); i += 2 {
		if all[i+1] != "" {
			q.Set(all[i], all[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// each goes through a list to its end, page by page. An error is its last item.
func each[T any](p Page, read func(Page) ([]T, Pagination, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			items, info, err := read(p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if info.NextCursor == nil {
				return
			}
			p.After = *info.NextCursor
		}
	}
}

// path puts values into a path, each for a %; what they contain cannot change the path.
func path(parts ...string) string {
	var out string
	for i, p := range parts {
		if i%2 == 1 {
			p = url.PathEscape(p)
		}
		out += p
	}
	return out
}

// get is a GET with the answer as its value.
func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, "GET", path, nil)
}
