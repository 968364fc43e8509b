# B7: the kernel's settings cannot be changed, and what a program may write of its own /proc gains it nothing.
def unwritable(path, value=b"0"):
    try:
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, value)
    except OSError as e:
        report("write " + path, True, errno.errorcode[e.errno])
    else:
        report("write " + path, False, "written")


for path in (
    "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/ns_last_pid", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/user/max_user_namespaces", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
    "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/uid_map", "/proc/self/uid_map", "/proc/self/projid_map", "/proc/self/attr/exec",
    "/proc/mtrr", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/release_agent",
):
    unwritable(path)
for path in ("/proc/1/environ", "/proc/1/maps", "/proc/1/root", "/proc/1/cwd", "/proc/1/fd", "/proc/1/ns/mnt", "/proc/kmsg", "/proc/slabinfo", "/proc/vmallocinfo"):
    unopenable(path)
with open("/proc/sys/user/max_user_namespaces") as f:
    report("no user namespaces", f.read() == "0\n", "0")
