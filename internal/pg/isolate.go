package pg

import "ajo/internal/batch"

// Isolate does a batch in one go, and if the server refuses what it carries, row by row: one bad row must not fail its
// neighbours. do answers each item, or returns the error that failed them all.
func Isolate[T, R any](items []T, do func([]T) ([]batch.Outcome[R], error)) []batch.Outcome[R] {
	out, err := do(items)
	if err == nil {
		return out
	}
	out = make([]batch.Outcome[R], len(items))
	for i := range items {
		out[i].Err = err
		if len(items) > 1 && IsData(err) {
			one, errOne := do(items[i : i+1])
			if errOne != nil {
				out[i].Err = errOne
			} else {
				out[i] = one[0]
			}
		}
	}
	return out
}
