# E9: orphans of the job are reaped by its init while it runs, and do not count against its processes.
made = 0
for _ in range(2000):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
    made += 1
deadline = time.time() + 5
left = 1
while left and time.time() < deadline:
    left = 0
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            left += "State:\tZ" in open("/proc/%s/status" % p).read()
        except OSError:
            pass
report("zombies", left == 0, "%d left of %d" % (left, made))
