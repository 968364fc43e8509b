package netns

import (
	"errors"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestAnInterruptedListIsAskedForAgain(t *testing.T) {
	for _, tt := range []struct {
		name        string
		interrupted int   // times, before
		then        error // this
		calls       int
	}{
		{"undisturbed", 0, nil, 1},
		{"disturbed twice", 2, nil, 3},
		{"another error", 1, errors.New("no"), 2},
		{"never whole", 1000, nil, dumps},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			items, err := whole(func() ([]int, error) {
				if calls++; calls <= tt.interrupted {
					return []int{1}, netlink.ErrDumpInterrupted
				}
				return []int{1, 2}, tt.then
			})
			want := tt.then
			if tt.interrupted >= dumps {
				want = netlink.ErrDumpInterrupted
			}
			if !errors.Is(err, want) || want == nil && !slices.Equal(items, []int{1, 2}) || calls != tt.calls {
				t.Errorf("%v, %v after %d calls, want error %v after %d", items, err, calls, want, tt.calls)
			}
		})
	}
}
