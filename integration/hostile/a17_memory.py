# A17: no way into another process's memory or descriptors, init's least of all.
import glob
buf = ctypes.create_string_buffer(64)
iov = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buf), 64), 16)
refused("process_vm_readv", nr(310, 270), 1, iov, 1, iov, 1, 0)
refused("process_vm_writev", nr(311, 271), 1, iov, 1, iov, 1, 0)
refused("process_madvise", 440, 3, iov, 1, 21, 0)
refused("kcmp", nr(312, 272), 1, os.getpid(), 0, 0, 0)
fd, e = sc(434, 1, 0)
refused("pidfd_getfd", 438, fd if fd >= 0 else 3, 0, 0)
for p in ("mem", "maps", "environ", "auxv", "syscall", "stack", "pagemap"):
    unopenable("/proc/1/" + p)
for link in ("root", "cwd", "exe"):
    try:
        report("readlink /proc/1/" + link, False, os.readlink("/proc/1/" + link))
    except OSError as e:
        report("readlink /proc/1/" + link, True, errno.errorcode[e.errno])
try:
    report("list /proc/1/fd", False, os.listdir("/proc/1/fd"))
except OSError as e:
    report("list /proc/1/fd", True, errno.errorcode[e.errno])
foreign = []
for d in glob.glob("/proc/[0-9]*"):
    try:
        if os.stat(d).st_uid != os.getuid() and d != "/proc/1":
            foreign.append(d)
    except FileNotFoundError:
        pass
report("foreign processes", not foreign, foreign or "none")
