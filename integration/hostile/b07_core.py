# B7: a crash leaves no core dump anywhere, whatever the program asks for.
import resource, signal

try:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
except (ValueError, OSError) as e:
    report("raise core limit", True, e)
else:
    report("raise core limit", False, resource.getrlimit(resource.RLIMIT_CORE))
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
