package hosttest

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Netns runs fn on an OS thread of its own in a fresh network namespace with lo up. The namespace goes away when fn has
// returned and nothing else holds it. Needs root.
//
// fn may fail or skip t. Goroutines that it starts run elsewhere: in the host's namespace.
func Netns(t testing.TB, fn func()) {
	t.Helper()
	Root(t)
	var setup error
	completed := false
	OnOwnThread(func() {
		if setup = freshNetns(); setup != nil {
			return
		}
		fn()
		completed = true
	})
	switch {
	case setup != nil:
		t.Fatalf("make network namespace: %v", setup)
	case completed:
	case t.Skipped():
		t.SkipNow()
	default:
		t.FailNow() // fn called FailNow, which ended its goroutine only
	}
}

// OnOwnThread runs fn on a thread that ends with it. The process's main thread would not end: the runtime parks it for
// good, in whatever namespace it is, and /proc/self shows that namespace as the process's. So when the scheduler offers
// the main thread, it is kept busy until fn has run on another.
func OnOwnThread(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			OnOwnThread(fn)
			runtime.UnlockOSThread()
			return
		}
		fn()
	}()
	<-done
}

func freshNetns() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare(CLONE_NEWNET): %w", err)
	}
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(sock)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(sock, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}
