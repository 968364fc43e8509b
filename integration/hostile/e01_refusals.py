# E1: a fork bomb each of whose processes makes refused calls all the time is ended by the pids limit as any other is, and
# nobody who waits for an answer to a refused call is left.
PTRACE = nr(101, 117)
end = time.time() + 1
while True:
    for _ in range(5):
        libc.syscall(PTRACE, 16, 1, 0, 0)
    if len(os.listdir("/proc")) < 100 or time.time() > end:
        os.fork()
