# What a program may set about itself changes nothing for those who watch it.
import signal, subprocess
def prctl(option, *args):
    return sc(nr(157, 167), option, *(args + (0,) * (4 - len(args))))


for name, option, args in (
    ("PR_SET_MM", 35, (1, 0)), ("PR_SET_MM_MAP", 35, (14, 0, 0)), ("PR_SET_MM_EXE_FILE", 35, (13, 0)),
    ("PR_SCHED_CORE create", 62, (1, 0, 0)), ("PR_SCHED_CORE share-from init", 62, (3, 1, 0)), ("PR_SCHED_CORE share-to init", 62, (2, 1, 0)),
):
    refused(name, nr(157, 167), option, *(args + (0,) * (4 - len(args))))
for name, option, args in (
    ("PR_SET_SECUREBITS", 28, (0,)), ("PR_CAPBSET_DROP", 24, (0,)), ("PR_CAP_AMBIENT raise", 47, (2, 21)), ("PR_SET_IO_FLUSHER", 57, (1,)),
    ("PR_SET_NO_NEW_PRIVS off", 38, (0,)),
):
    r, e = prctl(option, *args)
    report(name, r == -1, e or r)
refused("PR_SET_SECCOMP filter of nothing", nr(157, 167), 22, 2, 0, 0, 0, want=("EINVAL",))
r, e = prctl(8, 1)  # PR_SET_KEEPCAPS
report("PR_SET_KEEPCAPS", r == -1 or sc(nr(105, 146), 0)[0] == -1, e or "and still no other id")
# Unknown to /proc and to tracers, adopting orphans, odd names: refusals are still named and the end is still seen.
prctl(4, 0)  # PR_SET_DUMPABLE
prctl(0x59616D61, -1)  # PR_SET_PTRACER_ANY
prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
name = ctypes.create_string_buffer(b'"}\n\xff{\x1b[2J')
prctl(15, ctypes.addressof(name))
refused("ptrace while not dumpable", nr(101, 117), 16, 1, 0, 0)
refused("bpf under an odd name", nr(321, 280), 5, 0, 0)
for path in ("/proc/self/mem", "/proc/1/mem", "/proc/self/exe"):
    try:
        os.close(os.open(path, os.O_RDWR))
        report("write " + path, False, "opened")
    except OSError as e:
        report("write " + path, True, errno.errorcode[e.errno])
prctl(4, 1)
# The parent's death signal is asked for from init, which then lives on.
child = os.fork()
if child == 0:
    prctl(1, int(signal.SIGKILL))
    if os.fork() == 0:
        prctl(1, int(signal.SIGKILL))
        time.sleep(30)
    os._exit(0)
os.waitpid(child, 0)
report("PR_SET_PDEATHSIG", True, "init lives")
while True:  # adopted, since this is a subreaper
    try:
        if os.waitpid(-1, os.WNOHANG)[0] == 0:
            break
    except ChildProcessError:
        break
# System calls of one's own are turned into signals before any filter: that tightens only.
selector = ctypes.create_string_buffer(b"\0", 1)
r, e = prctl(59, 1, 0, 0, ctypes.addressof(selector))
refused("bpf under user dispatch", nr(321, 280), 5, 0, 0)
# Strict mode would be instead of the filter, not beside it.
if not not_filtered():
    report("strict mode instead of the filter", prctl(22, 1)[0] == -1, "refused")
