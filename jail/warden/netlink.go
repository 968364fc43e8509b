package warden

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tolbooth-dev/tolbooth/jail/wire"
)

// netlinkPeriod bounds what comes on top of wire.NetlinkBytes before anyone looks: one CPU fills some 40 MB meanwhile.
const netlinkPeriod = 100 * time.Millisecond

// watchNetlink ends a run whose netlink sockets hold too much. The kernel does not notify of that, so a timer looks.
func (r *run) watchNetlink() {
	tick := time.NewTicker(netlinkPeriod)
	defer tick.Stop()
	for {
		select {
		case <-r.over:
			return
		case <-tick.C:
		}
		queued, err := netlinkBytes()
		if err != nil {
			r.post(fault{"netlink", err})
			return
		}
		if queued > wire.NetlinkBytes {
			r.post(limitHit{wire.CauseNetlink})
			return
		}
	}
}

// netlinkBytes adds up what the netlink sockets of the jail's network namespace hold; the main thread has joined it.
func netlinkBytes() (int64, error) {
	file, err := os.Open("/proc/self/net/netlink")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return sumNetlink(file)
}

// sumNetlink reads the columns of the kernel's table: sk, Eth, Pid, Groups, Rmem, Wmem, and others that say no size.
func sumNetlink(table io.Reader) (sum int64, err error) {
	const received, sent = 4, 5
	lines := bufio.NewScanner(table)
	lines.Scan() // the heading
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= sent {
			return 0, fmt.Errorf("parse /proc/net/netlink: line %.80q", lines.Text())
		}
		for _, column := range fields[received : sent+1] {
			n, err := strconv.ParseInt(column, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("parse /proc/net/netlink: %w", err)
			}
			sum += n
		}
	}
	return sum, lines.Err()
}
