# E3: whatever kind of memory a job takes, it is the job's: memory of the kernel held by descriptors too.
import mmap, select, socket



def tmpfs(path):
    with open(path, "wb") as f:
        while True:
            f.write(bytes(1 << 20))
            f.flush()


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


KINDS = {"tmp": lambda: tmpfs("/tmp/x"), "run": lambda: tmpfs("/run/x"), "shm": lambda: tmpfs("/dev/shm/x"), "memfd": memfd, "pipes": pipes, "sockets": sockets, "page_tables": page_tables, "epoll": epoll, "sysv": sysv}

KINDS[sys.argv[1]]()
