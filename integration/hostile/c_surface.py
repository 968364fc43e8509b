# C: the kernel surface. Each call must answer EPERM or ENOSYS; EINVAL, EFAULT or EBADF would mean that it ran.
T = [("keyctl", 250, 219, (0, -3)), ("add_key", 248, 217, (b"user", b"k", b"v", 1, -3)), ("request_key", 249, 218, (b"user", b"k", 0, 0)),
     ("bpf", 321, 280, (0, 0, 0)), ("perf_event_open", 298, 241, (0, 0, -1, -1, 0)), ("userfaultfd", 323, 282, (0,)), ("io_uring_setup", 425, 425, (1, 0)),
     ("kexec_load", 246, 104, (0, 0, 0, 0)), ("init_module", 175, 105, (0, 0, b"")), ("finit_module", 313, 273, (0, b"", 0)), ("delete_module", 176, 106, (b"x", 0)),
     ("iopl", 172, None, (3,)), ("ioperm", 173, None, (0, 1, 1)), ("swapon", 167, 224, (b"/x", 0)), ("reboot", 169, 142, (0xFEE1DEAD, 672274793, 0)),
     ("settimeofday", 164, 170, (0, 0)), ("clock_settime", 227, 112, (0, 0)), ("adjtimex", 159, 171, (0,)), ("acct", 163, 89, (b"/x",)), ("syslog", 103, 116, (2, 0, 0)),
     ("quotactl", 179, 60, (0, 0, 0, 0)), ("lookup_dcookie", 212, 18, (0, 0, 0)), ("setns", 308, 268, (0, 0)), ("unshare", 272, 97, (0x10000000,)),
     ("open_by_handle_at", 304, 265, (0, 0, 0)), ("fanotify_init", 300, 262, (0, 0)), ("modify_ldt", 154, None, (0, 0, 0)), ("personality", 135, 92, (0x20000,)),
     ("process_vm_writev", 311, 271, (1, 0, 0, 0, 0, 0)), ("move_pages", 279, 239, (1, 0, 0, 0, 0, 0)), ("migrate_pages", 256, 238, (1, 0, 0, 0)),
     ("pidfd_getfd", 438, 438, (3, 0, 0)), ("fsopen", 430, 430, (b"tmpfs", 0)), ("open_tree", 428, 428, (-100, b"/", 1)), ("mount_setattr", 442, 442, (-100, b"/", 0, 0, 0)),
     ("memfd_secret", 447, 447, (0,)), ("statmount", 457, 457, (0, 0, 0, 0)), ("listmount", 458, 458, (0, 0, 0, 0)), ("sethostname", 170, 161, (b"x", 1)),
     ("sched_setattr", 314, 274, (0, 0, 0)), ("vhangup", 153, 58, ())]
for name, x86, arm, args in T:
    number = nr(x86, arm)
    if number is not None:
        refused(name, number, *args)

import socket
AF = {"AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40, "AF_XDP": 44, "AF_KEY": 15, "AF_TIPC": 30, "AF_CAN": 29, "AF_BLUETOOTH": 31, "AF_NFC": 39, "AF_RDS": 21, "AF_SMC": 43, "AF_QIPCRTR": 42, "AF_MCTP": 45}
SOCKET = nr(41, 198)
for name, family in AF.items():
    for kind in (1, 2, 3, 5):
        refused("socket %s %d" % (name, kind), SOCKET, family, kind, 0)
for name, proto in {"NETFILTER": 12, "XFRM": 6, "AUDIT": 9, "GENERIC": 16, "KOBJECT_UEVENT": 15, "SOCK_DIAG": 4}.items():
    refused("netlink " + name, SOCKET, 16, 3, proto)
for family in (2, 10):
    refused("raw %d" % family, SOCKET, family, 3, 1)
    refused("raw-cloexec %d" % family, SOCKET, family, 3 | 0x80000, 255)
    for name, kind, proto in (("SCTP", 1, 132), ("SCTP-seq", 5, 132), ("DCCP", 6, 33), ("UDPLITE", 2, 136), ("MPTCP", 1, 262)):
        # Go asks for MPTCP first and falls back on EPROTONOSUPPORT only; this kernel offers it, so that answer is the filter's.
        want = ("EPROTONOSUPPORT",) if name == "MPTCP" else ("EPERM", "ENOSYS")
        refused("%s %d" % (name, family), SOCKET, family, kind, proto, want=want)
refused("high bits of the family", SOCKET, 17 | 1 << 32, 3, 0)

# Reading addresses by NETLINK_ROUTE is let through; changing anything is not.
route = socket.socket(16, socket.SOCK_RAW, 0)
for name, kind, body in (("RTM_NEWLINK", 16, struct.pack("BxHiII", 0, 0, 1, 0, 1)), ("RTM_DELLINK", 17, struct.pack("BxHiII", 0, 0, 1, 0, 0)),
                         ("RTM_NEWADDR", 20, struct.pack("BBBBI", 2, 32, 0, 0, 1) + struct.pack("HH4s", 8, 2, b"\x0a\x58\0\x09")),
                         ("RTM_NEWROUTE", 24, struct.pack("8BI", 2, 0, 0, 0, 254, 3, 0, 1, 0)), ("RTM_NEWQDISC", 36, struct.pack("Bxxxi3I", 0, 1, 0, 0xFFFFFFFF, 0)), ("RTM_NEWNEIGH", 28, struct.pack("BxxxiHBB", 2, 1, 2, 0, 0))):
    route.send(struct.pack("=IHHII", 16 + len(body), kind, 5 | 0x400, 1, 0) + body)
    (code,) = struct.unpack_from("=i", route.recv(4096), 16)
    report(name, code != 0, errno.errorcode.get(-code, code))
tcp = socket.socket()
for name in (b"tls", b"smc", b"espintcp", b"mptcp"):
    refused("TCP_ULP " + name.decode(), nr(54, 208), tcp.fileno(), 6, 31, name, len(name), want=("ENOPROTOOPT",))
# A filter on a socket is compiled into room of the node's: on no socket, the ends of a pair included.
instruction = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFF))
program = struct.pack("HxxxxxxP", 1, ctypes.addressof(instruction))
pair, _ = socket.socketpair()
for s in (tcp, route, pair):
    for option in (26, 50, 51, 52):
        refused("socket filter %d %d" % (s.family, option), nr(54, 208), s.fileno(), 1, option, program, len(program), want=("EPERM",))
for family in (17, 38, 16, 2):
    refused("socketpair %d" % family, nr(53, 199), family, 1, 0, ctypes.create_string_buffer(8))

SCHED = nr(144, 119)
param = ctypes.create_string_buffer(struct.pack("i", 50), 4)
for name, policy in (("FIFO", 1), ("RR", 2), ("DEADLINE", 6), ("FIFO|reset", 1 | 0x40000000)):
    refused("sched " + name, SCHED, 0, policy, param)
try:
    os.nice(-5)
    report("negative nice", False, "allowed")
except OSError as e:
    report("negative nice", True, errno.errorcode[e.errno])
r, e = sc(nr(151, 230), 1 | 2)
grew = False
if r == 0:
    try:
        bytearray(64 << 20)
        grew = True
    except MemoryError:
        pass
report("mlockall over the limit", not grew, e or "bounded")
import glob
for p in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True) + ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cgroup.kill"]:
    unopenable(p, os.O_WRONLY)
try:
    os.mkdir("/sys/fs/cgroup/x")
    report("sub-cgroup", False, "made")
except OSError as e:
    report("sub-cgroup", True, errno.errorcode[e.errno])
for name, request in (("TIOCSTI", 0x5412), ("TIOCSTI-high", 0x100005412), ("TIOCLINUX", 0x541C)):
    refused("ioctl " + name, nr(16, 29), 0, request, b"x", want=("EPERM", "ENOTTY"))

# Pages that the kernel merges with other jobs' tell by the time of a write what is in them. EINVAL is also what a kernel without
# merging says.
import mmap
page = mmap.mmap(-1, 1 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(page))
refused("merge by madvise", nr(28, 233), start, 1 << 20, 12, want=("EINVAL",))
refused("merge by prctl", nr(157, 167), 67, 1, 0, 0, 0, want=("EINVAL",))
