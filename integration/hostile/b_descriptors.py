# Descriptors of others by every name that /proc gives them: the agent's, the warden's, init's.
import glob

seen = sorted(int(p) for p in os.listdir("/proc") if p.isdigit())
report("processes in sight", len(seen) <= 8 and seen[0] == 1, seen)
for pid in [1, os.getppid()] + list(range(2, 400)):
    if pid == os.getpid() or pid not in seen and pid > 60:
        continue
    for sub in ("fd", "map_files", "fdinfo"):
        try:
            names = os.listdir("/proc/%d/%s" % (pid, sub))
            report("list %d %s" % (pid, sub), False, names)
        except OSError as e:
            report("list %d %s" % (pid, sub), True, errno.errorcode[e.errno])
for fd in range(0, 64):
    for path in ("/proc/1/fd/%d" % fd, "/proc/1/task/1/fd/%d" % fd):
        try:
            f = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            report("open " + path, False, os.readlink("/proc/self/fd/%d" % f))
        except OSError:
            pass
report("descriptors of init", True, "128 tried")

# What stdin, stdout and stderr are: opened anew they give no more than they gave.
for fd in range(3):
    for flags in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND):
        try:
            again = os.open("/proc/self/fd/%d" % fd, flags | os.O_NONBLOCK)
        except OSError as e:
            report("reopen %d %x" % (fd, flags), True, errno.errorcode[e.errno])
            continue
        mode = os.fstat(again).st_mode & 0o170000
        report("reopen %d %x" % (fd, flags), mode in (0o010000, 0o020000) or not os.path.exists(os.readlink("/proc/self/fd/%d" % fd)), os.readlink("/proc/self/fd/%d" % again))
    for act in (lambda: os.fchmod(fd, 0o777), lambda: os.fchown(fd, 0, 0)):
        try:
            act()
        except OSError:
            pass
report("stdio", True, [os.readlink("/proc/self/fd/%d" % fd) for fd in range(3)])
