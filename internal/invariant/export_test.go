package invariant

// GroupsSQL are the checks of some groups, for the test of their plans.
func GroupsSQL() []string {
	all := []string{postedAgainSQL}
	for _, c := range checks {
		all = append(all, of.Replace(c.sql))
	}
	return all
}

// RunningSQL is the light check of running balances.
var RunningSQL = recent[0].sql
