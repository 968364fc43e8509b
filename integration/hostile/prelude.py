# Shared by every hostile program: raw system calls and one way to report. A line is `held NAME DETAIL`, `refused NAME ERRNO`
# (held, and a denial must name it), `ran NAME ERRNO` (the kernel ran a call that policy should have refused, and found
# fault with it) or `ESCAPED NAME DETAIL`. The test fails on any ESCAPED or ran in syd, on what minimal is not known to be
# weak in, on a missing line, on a refusal that no denial counts, and on a traceback.
import ctypes, errno, os, platform, struct, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = platform.machine() == "x86_64"


def sc(nr, *args):
    """One raw system call: (result, errno name or None)."""
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return r, (errno.errorcode.get(ctypes.get_errno(), "?") if r == -1 else None)


def report(name, held, detail):
    print("held" if held else "ESCAPED", name, detail, flush=True)


def refused(name, nr, *args, want=("EPERM", "ENOSYS"), quiet=False):
    """The call must be refused by policy: EINVAL or EFAULT would mean that the kernel ran it. Quiet: no denial names it."""
    answered(name, *sc(nr, *args), want, quiet)


def answered(name, r, e, want=("EPERM", "ENOSYS"), quiet=False):
    if r != -1:
        report(name, False, r)
    elif e not in want:
        print("ran", name, e, flush=True)
    elif quiet:
        report(name, True, e)
    else:
        print("refused", name, e, flush=True)


def not_filtered():
    """In minimal there is no filter, and nothing to expect of one."""
    return b"Seccomp:\t0" in open("/proc/self/status", "rb").read()


def nr(x86, arm):
    return x86 if X86 else arm


def unopenable(path, flags=os.O_RDONLY):
    try:
        fd = os.open(path, flags)
    except OSError as e:
        report("open " + path, True, errno.errorcode[e.errno])
    else:
        os.close(fd)
        report("open " + path, False, "opened")
