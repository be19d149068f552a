package pg

// Waiting counts the items that no batch has taken up yet.
func (b *Batcher[T, R]) Waiting() int { return b.calls.Waiting() }
