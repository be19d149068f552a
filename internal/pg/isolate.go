package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ajo/internal/batch"
)

// isolate does a batch in one go, and if that fails for what may be one row's fault, row by row:
// one bad row must not fail its neighbours. do answers each item, or returns the error that failed
// them all; its panic is such an error too.
func isolate[T, R any](items []T, do func([]T) ([]batch.Outcome[R], error)) []batch.Outcome[R] {
	out, err := safely(items, do)
	if err == nil {
		return out
	}
	out = make([]batch.Outcome[R], len(items))
	alone := len(items) > 1 && isRows(err)
	for i := range items {
		out[i].Err = err
		if !alone {
			continue
		}
		one, errOne := safely(items[i:i+1], do)
		if errOne == nil {
			out[i] = one[0]
			continue
		}
		// the database has gone: the others would only wait for it
		if out[i].Err = errOne; !isRows(errOne) {
			err, alone = errOne, false
		}
	}
	return out
}

func safely[T, R any](items []T, do func([]T) ([]batch.Outcome[R], error)) (out []batch.Outcome[R], err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(items)
}

// isRows tells whether err may be the fault of one row of a batch: the server's refusal of data, an
// exception of a trigger, an error inside the server, or one of ours. What is about the connection,
// the schema, locks, time or room is nobody's.
func isRows(err error) bool {
	switch code := Code(err); {
	case code != "":
		return IsData(err) || slices.Contains([]string{"P0", "XX", "54"}, code[:2])
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, pgx.ErrTxClosed), pgconn.SafeToRetry(err):
		return false
	}
	var dial net.Error
	var connect *pgconn.ConnectError
	return !errors.As(err, &dial) && !errors.As(err, &connect)
}
