# A22: every thread and every process has the filter, no_new_privs and no capabilities, whoever started it and how.
import subprocess
report("tasks at start", len(os.listdir("/proc/self/task")) == 1, os.listdir("/proc/self/task"))
seen, lock = [], threading.Lock()


def look():
    status = dict(l.split(":\t", 1) for l in open("/proc/thread-self/status").read().splitlines() if ":\t" in l)
    r, e = sc(nr(101, 117), 16, 1, 0, 0)
    with lock:
        seen.append((status["Seccomp"], status["NoNewPrivs"], status["CapEff"], status["CapBnd"], e or r))


threads = [threading.Thread(target=look) for _ in range(16)]
for t in threads:
    t.start()
for t in threads:
    t.join()
want = ("2", "1", "0" * 16, "0" * 16, "EPERM")
report("threads", set(seen) == {want} or not_filtered(), set(seen))
look_from = "import ctypes, os; s = open('/proc/self/status').read(); print([l.split()[1] for l in s.splitlines() if l.startswith(('Seccomp:', 'NoNewPrivs:', 'CapBnd:'))])"
for name, argv in (("child", ["python3", "-c", look_from]), ("setsid", ["setsid", "-w", "python3", "-c", look_from]), ("env", ["env", "-i", "/usr/bin/python3", "-c", look_from])):
    out = subprocess.run(argv, capture_output=True, text=True)
    report(name, out.stdout == "['%s', '1', '2']\n" % ("0" * 16) or not_filtered(), out.stdout.strip() or out.stderr)
# Nobody of this jail runs without: init and whoever else is there.
bare = []
for pid in os.listdir("/proc"):
    if pid.isdigit() and pid != "1":
        s = open("/proc/%s/status" % pid).read()
        if "Seccomp:\t2" not in s:
            bare.append(pid)
report("processes without a filter", not bare or not_filtered(), bare)
