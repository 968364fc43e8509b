# The three streams are shared with the warden or the agent: nothing that can be set on one reaches the other side, stops it,
# or has the kernel signal it.
import fcntl, signal, socket, stat
for fd in (0, 1, 2):
    st = os.fstat(fd)
    # A stdin that the request spelled out is memory of the job's own.
    text = fd == 0 and os.readlink("/proc/self/fd/0").startswith("/memfd:stdin")
    kind = "text" if text else "pipe" if stat.S_ISFIFO(st.st_mode) else "null" if st.st_rdev == os.makedev(1, 3) else "other"
    report("stream %d" % fd, kind != "other", "%s of uid %d" % (kind, st.st_uid))
    for where in (".", "..", "x"):
        try:
            os.close(os.open(where, os.O_RDONLY, dir_fd=fd))
            report("%s below %d" % (where, fd), False, "opened")
        except OSError as e:
            report("%s below %d" % (where, fd), True, errno.errorcode[e.errno])
    target = os.readlink("/proc/self/fd/%d" % fd)
    report("name of %d" % fd, text or target.startswith("pipe:[") or target == "/dev/null", target)
# The kernel is asked to signal others when something can be read or written: init, everybody, guessed numbers.
for owner in (1, -1, 2, 3, -2):
    for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGIO):
        for fd in (1, 2):
            try:
                fcntl.fcntl(fd, fcntl.F_SETOWN, owner)
                fcntl.fcntl(fd, 10, int(sig))  # F_SETSIG
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
                os.write(fd, b"\n")
                fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_ASYNC)
            except OSError:
                pass
fcntl.fcntl(1, fcntl.F_SETOWN, 0)
report("owned streams", True, "init lives, as do we")
# The pipe becomes as small and as large as may be, a packet pipe, and one that does not block.
for size in (4096, 1 << 20, 1 << 31, 0):
    try:
        fcntl.fcntl(1, 1031, size)
    except OSError:
        pass
for flag in (os.O_NONBLOCK, os.O_DIRECT, os.O_APPEND, getattr(os, "O_NOATIME", 0)):
    try:
        fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | flag)
        os.write(1, b"")
        os.write(1, b"\n")
    except OSError:
        pass
fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY)
report("flags of the pipe", True, "set and cleared")
# Pages that are given away, spliced from files and doubled: the reader sees bytes, or nothing.
r, w = os.pipe()
fd = os.open("/etc/passwd", os.O_RDONLY)
os.splice(fd, w, 64)
sc(nr(276, 77), r, 2, 64, 0)  # tee
sc(nr(275, 76), r, 0, 2, 0, 64, 0)  # splice
data = ctypes.create_string_buffer(b"\n" * 4096, 4096)
for _ in range(20):
    sc(nr(278, 75), 2, ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(data), 4096), 16), 1, 8)  # vmsplice, GIFT
hole = libc.mmap
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 4096)
page = libc.mmap(None, 4096, 3, 1, file, 0)
sc(nr(278, 75), 2, ctypes.create_string_buffer(struct.pack("QQ", page, 4096), 16), 1, 0)
os.ftruncate(file, 0)  # the pages that wait in the pipe are no longer part of a file
report("spliced pages", True, "the reader goes on")
# A second reader of one's own pipe takes from oneself alone; then the writer sits on a full pipe that nobody reads but the warden.
mine = os.open("/proc/self/fd/2", os.O_RDONLY | os.O_NONBLOCK)
os.write(2, b"y" * 300000)
try:
    os.read(mine, 1 << 16)
except BlockingIOError:
    pass
os.close(mine)
report("own reader", True, "no block")
for name, call in (
    ("lease", lambda: fcntl.fcntl(0, fcntl.F_SETLEASE, fcntl.F_RDLCK)), ("notify", lambda: fcntl.fcntl(os.open("/", os.O_RDONLY), fcntl.F_NOTIFY, 0x3F)),
    ("seals", lambda: fcntl.fcntl(0, 1033, 15)), ("flock", lambda: fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB)),
):
    try:
        call()
        report(name, True, "own file only")
    except OSError as e:
        report(name, True, errno.errorcode[e.errno])
