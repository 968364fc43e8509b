# A3: a path that changes during execve runs one of the two files, and never the one that may not be executed.
import signal
open("/tmp/evil", "w").write("#!/bin/sh\nexit 66\n")  # 0644: readable, not executable
os.chmod("/tmp/evil", 0o644)
good, bad = b"/usr/bin/true\0", b"/tmp/evil\0\0\0\0\0"
shared = __import__("mmap").mmap(-1, 4096)
buf = (ctypes.c_char * 64).from_buffer(shared)
argv = (ctypes.c_char_p * 2)(b"x", None)
ctypes.memmove(buf, good, 14)
flipper = os.fork()
if flipper == 0:
    while True:
        ctypes.memmove(buf, good, 14)
        ctypes.memmove(buf, bad, 14)
ends = {}
for _ in range(150):
    pid = os.fork()
    if pid == 0:
        libc.execv(buf, argv)
        os._exit(80)  # refused
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ends[code] = ends.get(code, 0) + 1
os.kill(flipper, signal.SIGKILL)
os.waitpid(flipper, 0)
report("the denied program", not ends.keys() - {0, 80}, ends)

# The same with a directory in the path that is exchanged for a link to the node's own tree.
os.makedirs("/tmp/d1")
os.symlink("/proc/1/root/usr/bin", "/tmp/d2")
stop = False


def swap():
    while not stop:
        for a, b in (("/tmp/d1", "/tmp/d3"), ("/tmp/d2", "/tmp/d1"), ("/tmp/d1", "/tmp/d2"), ("/tmp/d3", "/tmp/d1")):
            os.rename(a, b)


t = threading.Thread(target=swap)
t.start()
got = 0
for _ in range(2000):
    try:
        os.close(os.open("/tmp/d1/true", os.O_RDONLY))
        got += 1
    except OSError:
        pass
stop = True
t.join()
report("init's root by a swapped directory", got == 0, got)
