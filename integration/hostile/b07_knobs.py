# B7: the kernel's settings cannot be changed, and what a program may write of its own /proc gains it nothing. What is covered by
# the jail's /dev/null can be opened, and is that.
def null(fd):
    return os.fstat(fd).st_rdev == os.makedev(1, 3)


def unwritable(path, value=b"0"):
    try:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, value)
    except OSError as e:
        report("write " + path, True, errno.errorcode[e.errno])
    else:
        report("write " + path, null(fd), "written")


def unreadable(path):
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        report("read " + path, True, errno.errorcode[e.errno])
    else:
        report("read " + path, null(fd), "opened")


for path in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/ns_last_pid", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
    "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/uid_map", "/proc/self/uid_map", "/proc/self/projid_map", "/proc/self/attr/exec",
    "/proc/self/attr/current", "/proc/self/attr/fscreate", "/proc/self/attr/keycreate", "/proc/self/attr/sockcreate",
    "/proc/mtrr", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent",
    "/sys/fs/cgroup/memory/release_agent", "/sys/power/state", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/timer_list",
):
    unwritable(path)
unwritable("/proc/self/oom_score_adj", b"-1000")
for path in ("/proc/1/environ", "/proc/1/maps", "/proc/1/root", "/proc/1/cwd", "/proc/1/fd", "/proc/1/ns/mnt"):
    unopenable(path)
for path in ("/proc/kmsg", "/proc/slabinfo", "/proc/vmallocinfo", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/iomem", "/proc/pagetypeinfo"):
    unreadable(path)
with open("/proc/sys/user/max_user_namespaces") as f:
    report("no user namespaces", f.read() == "0\n", "0")
