package netns

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace held by descriptors only: nothing of it is in a file system. It belongs to the agent's
// user namespace, so a jail in it has no power over it.
type Namespace struct {
	file  *os.File
	route *netlink.Handle // a route socket inside; it holds the namespace too
	dns   *dnsSockets     // nil: taken
}

// New makes a namespace with its loopback device up, the sockets of its resolver, and nothing else.
func New() (*Namespace, error) {
	var ns *Namespace
	err := onOtherThread(func() (restored bool, err error) {
		ns, restored, err = newNamespace()
		return restored, err
	})
	if err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	return ns, nil
}

// File is the namespace's descriptor, for setns(2). It is the Namespace's own: do not close it.
func (n *Namespace) File() *os.File { return n.file }

// Close lets the namespace go. The kernel removes it, with any veth in it, once no process and no socket is left inside.
func (n *Namespace) Close() error {
	n.route.Close()
	return errors.Join(n.dns.close(), n.file.Close())
}

// newNamespace runs on a locked thread. restored says that the thread is back where it was.
func newNamespace() (ns *Namespace, restored bool, err error) {
	home, err := currentNamespace()
	if err != nil {
		return nil, true, err
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, true, fmt.Errorf("unshare(CLONE_NEWNET): %w", err)
	}
	ns, err = openInside()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return ns, false, errors.Join(err, fmt.Errorf("setns back: %w", back))
	}
	return ns, true, err
}

func openInside() (*Namespace, error) {
	file, err := currentNamespace()
	if err != nil {
		return nil, err
	}
	route, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open route socket: %w", err), file.Close())
	}
	ns := &Namespace{file: file, route: route}
	lo := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1}} // loopback is the first device of every namespace
	if err := route.LinkSetUp(lo); err != nil {
		return nil, errors.Join(fmt.Errorf("set lo up: %w", err), ns.Close())
	}
	if ns.dns, err = listenDNS(); err != nil {
		return nil, errors.Join(err, ns.Close())
	}
	return ns, nil
}

// currentNamespace opens the calling thread's namespace: /proc/self would be the main thread's.
func currentNamespace() (*os.File, error) {
	return os.OpenFile("/proc/thread-self/ns/net", os.O_RDONLY, 0)
}

// onOtherThread runs fn on a locked thread that is not the process's main thread, and waits. A thread that could not be
// restored ends with its goroutine. The main thread would not end but be parked in the foreign namespace for good, where
// /proc/self shows it as the process's own: so when the scheduler offers it, another one is taken.
func onOtherThread(fn func() (restored bool, err error)) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onOtherThread(fn)
			runtime.UnlockOSThread()
			return
		}
		restored, err := fn()
		if restored {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}
