package reconcile

import "time"

// FloatWithin sets how long the float may take.
func (s *Service) FloatWithin(d time.Duration) { s.floatTime = d }
