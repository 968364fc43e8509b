package socket

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tolbooth-dev/tolbooth/agent/api"
	"github.com/tolbooth-dev/tolbooth/integration/harness"
	"github.com/tolbooth-dev/tolbooth/internal/hosttest"
)

// fillers are programs that take disk space as fast as they can, each in its own way.
var fillers = []struct {
	name   string
	disk   int64
	inodes int64 // 0: the default
	code   string
}{
	{"dd_1Gi", 1 << 30, 0, "import subprocess\nsubprocess.run(['dd','if=/dev/zero','of=a','bs=1M'],stderr=-3); subprocess.run(['dd','if=/dev/zero','of=b','bs=1M'],stderr=-3)"},
	{"dd_100Mi", 100 << 20, 0, "import subprocess\nsubprocess.run(['dd','if=/dev/zero','of=a','bs=1M'],stderr=-3); subprocess.run(['dd','if=/dev/zero','of=b','bs=1M'],stderr=-3)"},
	{"dd_40Mi", 40 << 20, 0, "import subprocess\nsubprocess.run(['dd','if=/dev/zero','of=a','bs=1M'],stderr=-3); subprocess.run(['dd','if=/dev/zero','of=b','bs=1M'],stderr=-3)"},
	{"one_large_call", 1 << 30, 0, "import os\nx=bytes(700<<20)\nfor n in 'abcd': os.write(os.open(n,os.O_CREAT|os.O_WRONLY),x)"},
	{"two_writers", 200 << 20, 0, "import os\np=os.fork()\nx=bytes(1<<20)\nfor n in range(1000):\n f=open('f%d-%d'%(n,p),'wb')\n for i in range(50): f.write(x)"},
	{"reserved", 100 << 20, 0, "import os,ctypes\nlibc=ctypes.CDLL(None)\nfor n in range(200):\n fd=os.open('f%d'%n,os.O_CREAT|os.O_RDWR)\n libc.fallocate(fd,0,ctypes.c_long(0),ctypes.c_long(90<<20))\n libc.fallocate(fd,1,ctypes.c_long(0),ctypes.c_long(90<<20))\n os.pwrite(fd,bytes(1<<20),0)"},
	{"posix_fallocate", 100 << 20, 0, "import os\nfor n in range(20): os.posix_fallocate(os.open('f%d'%n,os.O_CREAT|os.O_RDWR),0,90<<20)"},
	{"small_files", 1 << 30, 20_000, "import os\nfor i in range(10**6): os.close(os.open('f%d'%i,os.O_CREAT|os.O_WRONLY))"},
	{"mapped", 100 << 20, 0, "import mmap,os\nfor n in range(20):\n fd=os.open('f%d'%n,os.O_CREAT|os.O_RDWR); os.unlink('f%d'%n); os.truncate(fd,90<<20)\n m=mmap.mmap(fd,90<<20); os.close(fd)\n for o in range(0,90<<20,4096): m[o]=1\n globals()['m%d'%n]=m"},
	{"in_flight", 100 << 20, 0, "import os,socket\na,b=socket.socketpair(socket.AF_UNIX,socket.SOCK_DGRAM)\nx=bytes(1<<20)\nfor n in range(9):\n fd=os.open('f',os.O_CREAT|os.O_RDWR); os.unlink('f')\n for i in range(30): os.write(fd,x)\n socket.send_fds(a,[b'x'],[fd]); os.close(fd)\nimport time; time.sleep(60)"},
	{"thread_table", 100 << 20, 0, "import os,ctypes,threading,time\ndef f():\n ctypes.CDLL(None).unshare(0x400)\n for n in range(9):\n  fd=os.open('f',os.O_CREAT|os.O_RDWR); os.unlink('f')\n  for i in range(30): os.write(fd,bytes(1<<20))\n time.sleep(60)\nthreading.Thread(target=f).start()"},
	{"to_and_fro", 100 << 20, 0, "import os\nx=bytes(1<<20)\nfor n in range(40):\n f=open('f%d'%(n%3),'wb')\n for i in range(45): f.write(x); f.flush()"},
}

// TestDiskLimitHolds: the file system never loses more than the limit and a twentieth, however the space is taken, and the
// job ends by its limit's name.
func TestDiskLimitHolds(t *testing.T) {
	hosttest.NotSlow(t, "how fast a program writes is not how fast the agent looks on an emulated machine")
	state := hosttest.Image(t, 6<<30, "noatime", "mkfs.ext4", "-q", "-E", "lazy_itable_init=1,lazy_journal_init=1")
	a := harness.Start(t, harness.Options{State: filepath.Join(state, "state")})
	for _, f := range fillers {
		t.Run(f.name, func(t *testing.T) {
			before := settled(t, state)
			peak := make(chan unix.Statfs_t)
			stop := make(chan struct{})
			go func() { peak <- leastFree(state, stop) }()
			cpu := a.CPU()
			started := time.Now()
			res := a.Run(code(f.code, api.Limits{Disk: api.Quantity(f.disk), Inodes: f.inodes, Memory: api.Quantity(2 << 30), CPUs: 2}))
			took, spent := time.Since(started), a.CPU()-cpu
			close(stop)
			least := <-peak
			bytes, inodes := int64(before.Bfree-least.Bfree)*before.Bsize, int64(before.Ffree-least.Ffree)
			t.Logf("limit %d MiB, peak %.1f MiB (%+.1f %%), %d inodes, %v, agent CPU %v, %s %+v", f.disk>>20, float64(bytes)/(1<<20), 100*(float64(bytes)/float64(f.disk)-1), inodes, took.Round(time.Millisecond), spent, res.Outcome, res.Limit)
			if most := f.disk + f.disk/20; bytes > most {
				t.Errorf("%d bytes were taken, %d over", bytes, bytes-most)
			}
			if most := f.inodes + f.inodes/20; f.inodes > 0 && inodes > most {
				t.Errorf("%d inodes were taken, %d over", inodes, inodes-most)
			}
			if res.Outcome != api.OutcomeDiskLimit {
				t.Errorf("outcome %s %s: %q", res.Outcome, res.Detail, res.Stderr)
			}
		})
	}
}

// settled waits until nothing of an earlier job is left on the file system.
func settled(t *testing.T, dir string) unix.Statfs_t {
	t.Helper()
	var last unix.Statfs_t
	for range 100 {
		now := statfs(dir)
		if now.Bfree == last.Bfree && now.Ffree == last.Ffree {
			return now
		}
		last = now
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the file system does not come to rest")
	return last
}

func statfs(dir string) unix.Statfs_t {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		panic(err)
	}
	return st
}

// leastFree follows the free space until stop.
func leastFree(dir string, stop chan struct{}) unix.Statfs_t {
	least := statfs(dir)
	for {
		now := statfs(dir)
		least.Bfree, least.Ffree = min(least.Bfree, now.Bfree), min(least.Ffree, now.Ffree)
		select {
		case <-stop:
			return least
		case <-time.After(500 * time.Microsecond):
		}
	}
}
