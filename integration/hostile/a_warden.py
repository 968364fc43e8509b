# Beyond a guess at numbers: what a program can learn of those who watch it, and every handle it could have on them.
import glob, socket
listed = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
report("processes", listed[0] == 1 and all(p == 1 or os.stat("/proc/%d" % p).st_uid == os.getuid() for p in listed), listed)
status = dict(l.split(":\t", 1) for l in open("/proc/self/status").read().splitlines() if ":\t" in l)
report("tracer's number", int(status["TracerPid"]) == 0, status["TracerPid"])
report("parent", os.getppid() == 1 and status["PPid"] == "1", status["PPid"])
report("one number", len(status["NSpid"].split()) == 1, status["NSpid"])
report("session", os.getsid(0) == os.getpid() == os.getpgid(0), "%d %d" % (os.getsid(0), os.getpgid(0)))
fds = {fd: os.readlink("/proc/self/fd/" + fd) for fd in ("0", "1", "2")}
for fd in range(3, 1024):
    try:
        fds[str(fd)] = os.readlink("/proc/self/fd/%d" % fd)
    except OSError:
        pass
odd = [l for l in fds.values() if "seccomp" in l or l.startswith(("socket", "/memfd", "anon_inode")) or "tolbooth" in l]
report("descriptors at start", not odd and len(fds) == 3, fds)
for what in ("exe", "cwd", "root", "fd", "fdinfo", "ns/net", "ns/user", "map_files", "mem", "environ", "syscall", "stack", "io", "timers", "personality", "attr/current", "loginuid", "setgroups", "uid_map", "projid_map", "clear_refs", "task/1/mem", "task/1/cwd"):
    path = "/proc/1/" + what
    if not os.path.lexists(path):
        report(path, True, "not there")
        continue
    try:
        fd = os.open(path, os.O_RDWR)
        n = os.write(fd, b"0\n")
    except OSError as e:
        report("write " + path, True, errno.errorcode[e.errno])
    else:
        report("write " + path, False, n)
for path in ("/proc/1/cmdline", "/proc/1/mountinfo", "/proc/1/cgroup", "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/mounts", "/proc/self/mountstats", "/proc/self/maps", "/proc/net/unix"):
    try:
        text = open(path).read()
    except OSError as e:
        report(path, True, errno.errorcode[e.errno])
        continue
    hits = [l for l in text.splitlines() if any(w in l for w in ("/var/lib", "tolbooth-jail", "/state", "/skel/", "/run/", "tb-"))]
    report("node's paths in " + path, not [h for h in hits if "tmpfs" not in h] or path == "/proc/1/cmdline", hits[:3])
# A handle on init by pidfd: no signal, no namespace, no descriptor, no wait.
fd, e = sc(434, 1, 0)
if fd >= 0:
    refused("pidfd_getfd of init", 438, fd, 3, 0)
    refused("setns to init", nr(308, 268), fd, 0x20000000)
    for sig in (9, 19, 15, 10, 0):
        r, e = sc(424, fd, sig, 0, 0)
        report("pidfd signal %d" % sig, r == -1, e or r)
    refused("process_madvise of init", 440, fd, 0, 0, 0, 0)
    refused("process_mrelease of init", 448, fd, 0)
    for request in (0xFF01, 0xFF02, 0xFF03, 0xFF04, 0xFF05, 0xFF06, 0xFF09):  # PIDFD_GET_*_NAMESPACE
        r, e = sc(nr(16, 29), fd, request, 0)
        report("namespace %#x of init" % request, r == -1, e or r)
# Messages that claim to be from somebody else.
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
b.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
for pid, uid in ((1, 0), (1, os.getuid()), (os.getpid(), 0)):
    try:
        a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("3i", pid, uid, uid))])
        report("credentials of %d:%d" % (pid, uid), False, "sent")
    except OSError as e:
        report("credentials of %d:%d" % (pid, uid), True, errno.errorcode[e.errno])
# Names that daemons of a node listen at.
for name in ("\0docker", "\0/containerd-shim/x", "\0/org/kernel/linux/storage/multipathd", "\0/tmp/.X11-unix/X0", "/run/containerd/containerd.sock", "/run/tolbooth/tolbooth.sock", "/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"):
    s = socket.socket(socket.AF_UNIX)
    r = s.connect_ex(name)
    report("connect " + name.strip("\0"), r != 0, errno.errorcode.get(r, r))
