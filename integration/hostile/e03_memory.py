# E3: whatever kind of memory a job takes, it is the job's: memory of the kernel held by descriptors too.
import mmap, select, socket



def tmpfs(*dirs):
    """Fills file systems that live in memory, then takes half of that again: more than the limit only if those count."""
    taken = 0
    for d in dirs:
        fd = os.open(d + "/x", os.O_CREAT | os.O_WRONLY)
        try:
            while taken < 28 << 20:
                taken += os.write(fd, bytes(1 << 20))
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise
    kept = bytearray(28 << 20)
    report("memory beside tmpfs", False, "%d and %d" % (taken, len(kept)))


def memfd():
    fds = []
    while True:
        fds.append(os.memfd_create("m"))
        os.write(fds[-1], bytes(1 << 20))


def pipes():
    kept = []
    while True:
        r, w = os.pipe()
        os.set_blocking(w, False)
        kept.append((r, w))
        try:
            while True:
                os.write(w, bytes(1 << 16))
        except BlockingIOError:
            pass


def sockets():
    kept = []
    while True:
        a, b = socket.socketpair()
        a.setblocking(False)
        kept.append((a, b))
        try:
            while True:
                a.send(bytes(1 << 16))
        except BlockingIOError:
            pass


def page_tables():
    m = mmap.mmap(-1, 4 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
    for at in range(0, 4 << 40, 2 << 20):
        m[at]


def epoll():
    watched = [os.eventfd(0) for _ in range(900)]
    kept = []
    while True:
        e = select.epoll()
        kept.append(e)
        for fd in watched:
            e.register(fd)


def sysv():
    while True:
        i = libc.shmget(0, 8 << 20, 0o1600)
        libc.shmat.restype = ctypes.c_void_p
        at = libc.shmat(i, None, 0)
        if i < 0 or at in (None, ctypes.c_void_p(-1).value):
            raise OSError("shmget %d" % i)
        ctypes.memset(at, 1, 8 << 20)
        libc.shmdt(ctypes.c_void_p(at))


def mapped():
    """Pages of a file of /dev/shm that nobody writes by a system call."""
    fd = os.open("/dev/shm/y", os.O_CREAT | os.O_RDWR)
    os.truncate(fd, 512 << 20)
    m = mmap.mmap(fd, 512 << 20)
    for at in range(0, 512 << 20, 4096):
        m[at] = 1


KINDS = {"tmp": lambda: tmpfs("/tmp", "/run"), "shm": lambda: tmpfs("/dev/shm"), "mapped": mapped, "memfd": memfd, "pipes": pipes, "sockets": sockets, "page_tables": page_tables, "epoll": epoll, "sysv": sysv}

KINDS[sys.argv[1]]()
