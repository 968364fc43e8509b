# B8: no device nodes but the harmless ones, and no making of new ones.
import stat
S = {"block 8:0": (stat.S_IFBLK, 8, 0), "mem": (stat.S_IFCHR, 1, 1), "kmsg": (stat.S_IFCHR, 1, 11), "null": (stat.S_IFCHR, 1, 3), "whiteout": (stat.S_IFCHR, 0, 0)}
for name, (kind, major, minor) in S.items():
    for where in ("/workspace/n", "/tmp/n", "/dev/shm/n"):
        try:
            os.mknod(where, kind | 0o666, os.makedev(major, minor))
            report("mknod %s %s" % (name, where), False, "made")
        except OSError as e:
            report("mknod %s %s" % (name, where), True, errno.errorcode[e.errno])
for p in ("/dev/mem", "/dev/kmsg", "/dev/port", "/dev/fuse", "/dev/net/tun", "/dev/kvm", "/dev/vda", "/dev/sda", "/dev/loop-control", "/dev/bus/usb"):
    unopenable(p)
# Covered by the jail's /dev/null where the kernel has them: they open and are empty.
for p in ("/proc/kcore", "/proc/kmsg"):
    try:
        with open(p, "rb") as f:
            data = f.read(1)
        report("read " + p, not data, "empty" if not data else "the kernel's")
    except OSError as e:
        report("read " + p, True, errno.errorcode[e.errno])
for p in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/sys/kernel/uevent_helper"):
    unopenable(p, os.O_WRONLY)
allowed = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout", "stderr", "mqueue", "core"}
extra = set(os.listdir("/dev")) - allowed
report("only known nodes", not extra, sorted(extra) or "ok")
for d, _, names in os.walk("/dev"):
    for n in names:
        st = os.lstat(os.path.join(d, n))
        if stat.S_ISBLK(st.st_mode):
            report("block device", False, os.path.join(d, n))
# These can be opened by the process they belong to; what counts is that nothing can be written.
for p, value in (("/proc/self/uid_map", "0 0 1"), ("/proc/self/gid_map", "0 0 1"), ("/proc/self/setgroups", "allow"), ("/proc/self/oom_score_adj", "-1000")):
    try:
        with open(p, "w") as f:
            f.write(value)
        report("write " + p, False, "written")
    except OSError as e:
        report("write " + p, True, errno.errorcode[e.errno])
