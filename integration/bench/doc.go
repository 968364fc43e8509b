// Package bench measures tolbooth beside its peers in one run: `make bench`. Every benchmark runs its variants in turn,
// round by round, so that a slow moment of the machine hits all of them, and reports percentiles and ratios of medians.
// Nothing here asserts a time.
package bench
