# E8: processes that nothing but the end of their cgroup reaches: blocked in vfork, in a FIFO that nobody opens, stopped with
# their whole group, in a lock held by a stopped one, deaf in every thread, and daemons that left the session.
import fcntl, signal
libc.vfork.restype = ctypes.c_int
os.mkfifo("fifo")
open("lock", "w").close()
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass


def child(act):
    if os.fork() == 0:
        act()
        os._exit(0)


def locked():
    fd = os.open("lock", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.kill(os.getpid(), signal.SIGSTOP)


def daemon():
    os.setsid()
    if os.fork() == 0:
        while True:
            time.sleep(0.01)


child(lambda: os.open("fifo", os.O_RDONLY))
child(locked)
child(locked)
child(daemon)
child(lambda: (os.setpgid(0, 0), [child(lambda: time.sleep(60)) for _ in range(4)], os.killpg(0, signal.SIGSTOP)))
child(lambda: os.execvp("sh", ["sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done"]))
child(lambda: [threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(8)])
# vfork by way of posix_spawn of what never gets to its execve: the parent waits for the child, which waits for the FIFO.
child(lambda: os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 5, "fifo", os.O_RDONLY, 0)]))
print("held all are blocked", flush=True)
os.kill(0, signal.SIGSTOP)
time.sleep(60)
