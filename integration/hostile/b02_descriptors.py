# B2: exactly stdin, stdout and stderr are open, and none of them leads anywhere.
listing = sorted(int(x) for x in os.listdir("/proc/self/fd"))
report("inherited", listing[:3] == [0, 1, 2] and len(listing) <= 4, listing)
for fd in range(3, 1024):
    try:
        os.fstat(fd)
        report("fstat %d" % fd, False, os.readlink("/proc/self/fd/%d" % fd))
    except OSError as e:
        if e.errno != errno.EBADF:
            report("fstat %d" % fd, False, errno.errorcode[e.errno])
for fd in range(0, 1024):
    r, e = sc(nr(257, 56), fd, b"..", os.O_RDONLY | os.O_DIRECTORY, 0)
    if r >= 0:
        report("openat %d .." % fd, False, os.readlink("/proc/self/fd/%d" % r))
report("openat ..", True, "1024 tried")
report("cwd", os.getcwd().startswith("/workspace") or os.getcwd() == "/", os.getcwd())
