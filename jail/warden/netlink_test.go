package warden

import (
	"strings"
	"testing"
)

func TestSumNetlink(t *testing.T) {
	const heading = "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
	for _, c := range []struct {
		name, table string
		want        int64
		fails       bool
	}{
		{"nobody", heading, 0, false},
		{"two sockets", heading + "000000001c183f24 0   0          00000000 4096     0        0     2        0        4       \n" +
			"000000007539ed3b 15  77         00000001 100      32       0     2        7        557     \n", 4228, false},
		{"too short", heading + "000000001c183f24 0 0 00000000 4096\n", 0, true},
		{"no number", heading + "000000001c183f24 0 0 00000000 4096 x 0 2 0 4\n", 0, true},
	} {
		got, err := sumNetlink(strings.NewReader(c.table))
		if got != c.want && !c.fails || (err != nil) != c.fails {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
	}
}

func TestNetlinkBytes(t *testing.T) {
	if _, err := netlinkBytes(); err != nil {
		t.Error(err)
	}
}
