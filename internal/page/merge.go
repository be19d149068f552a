package page

// Merge puts what several searches have found into one list: each thing once, as its key tells,
// where it stands first, and at most limit of them. more says that some are left out.
func Merge[T any, K comparable](limit int, key func(T) K, lists ...[]T) (merged []T, more bool) {
	seen := map[K]bool{}
	for _, list := range lists {
		for _, v := range list {
			switch {
			case seen[key(v)]:
			case len(merged) == limit:
				return merged, true
			default:
				seen[key(v)] = true
				merged = append(merged, v)
			}
		}
	}
	return merged, false
}
