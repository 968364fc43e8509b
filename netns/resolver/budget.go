package resolver

// Budget bounds what one job may send out and hold by looking up names. A name that a wildcard allows is a message to
// whoever runs the domain, so the distinct ones are few.
type Budget struct {
	Queries   int // lookups forwarded
	Names     int // distinct names forwarded that no rule names in full
	Addresses int // pinned at once
}

// DefaultBudget is enough for package managers, browsers and crawlers of a few hundred sites.
func DefaultBudget() Budget { return Budget{Queries: 10_000, Names: 500, Addresses: 4096} }

// spent is what a job has used of its budget. The Jail's lock guards it.
type spent struct {
	queries int
	names   map[string]bool
}

// charge takes one lookup off the budget, or says which part of it is used up.
func (s *spent) charge(b Budget, name string, counted bool) (rule string, limit int) {
	if s.queries >= b.Queries {
		return RuleQueries, b.Queries
	}
	if counted && !s.names[name] {
		if len(s.names) >= b.Names {
			return RuleNames, b.Names
		}
		if s.names == nil {
			s.names = map[string]bool{}
		}
		s.names[name] = true
	}
	s.queries++
	return "", 0
}
