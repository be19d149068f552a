package reconcile

import "time"

// InSlicesOf sets about how many records are compared at a time.
func (s *Service) InSlicesOf(records int) { s.sliceRecords = records }

// FloatWithin sets how long the float may take.
func (s *Service) FloatWithin(d time.Duration) { s.floatTime = d }
