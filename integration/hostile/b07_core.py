# B7: a crash leaves no core dump anywhere, whatever the program asks for. A limit of 0 would let the kernel run the program of a
# core_pattern with a pipe, as the node's root; at 1 it does neither.
import resource, signal

def held(): return resource.getrlimit(resource.RLIMIT_CORE) == (1, 1)
for name, limit in (("raise", resource.RLIM_INFINITY), ("lower", 0)):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    except (ValueError, OSError):
        pass  # answered as done, or refused: the limit tells
    report(name + " core limit", held(), resource.getrlimit(resource.RLIMIT_CORE))
try:
    resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))
except OSError:
    pass
report("exchange core limit", held(), resource.getrlimit(resource.RLIMIT_CORE))
report("read core limit", resource.prlimit(0, resource.RLIMIT_CORE)[0] < 2, "by prlimit")
libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE
with open("/proc/self/coredump_filter", "w") as f:
    f.write("0x7f")
before = {d: set(os.listdir(d)) for d in (".", "/tmp", "/var/tmp", "/")}
for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGQUIT, signal.SIGSYS, signal.SIGTRAP):
    pid = os.fork()
    if pid == 0:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(5)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    report("crash by %d" % number, os.WIFSIGNALED(status) and not os.WCOREDUMP(status), status)
for d, names in before.items():
    report("core in " + d, set(os.listdir(d)) == names, set(os.listdir(d)) - names)
