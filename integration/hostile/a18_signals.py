# A18: signals reach nobody but the job: not its init, not the warden, whatever number is guessed.
import signal, subprocess
for sig in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT):
    for name, call in (
        ("kill", lambda: sc(nr(62, 129), 1, int(sig))), ("tgkill", lambda: sc(nr(234, 131), 1, 1, int(sig))),
        ("rt_sigqueueinfo", lambda: sc(nr(129, 138), 1, int(sig), ctypes.create_string_buffer(128))),
        ("pidfd_send_signal", lambda: sc(424, os.pidfd_open(1), int(sig), 0, 0)),
    ):
        r, e = call()
        report("%s %s init" % (name, sig.name), r == -1, e)
inside = {int(p) for p in os.listdir("/proc") if p.isdigit()}
for pid in range(2, 4096):
    if pid not in inside and pid != os.getpid():
        r, e = sc(nr(62, 129), pid, 0)
        if r == 0:
            report("kill %d" % pid, False, "somebody is there")
for name, number, args in (
    ("sched_setaffinity", nr(203, 122), (1, 8, ctypes.create_string_buffer(b"\1" + bytes(7), 8))),
    ("setpriority", nr(141, 140), (0, 1, 19)), ("prlimit", nr(302, 261), (1, 7, 0, ctypes.create_string_buffer(16))),
    ("ioprio_set", nr(251, 30), (1, 1, 3 << 13)), ("get_robust_list", nr(274, 100), (1, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8))),
):
    refused(name + " of init", number, *args, want=("EPERM", "ESRCH"), quiet=True)
# To everybody in reach, which is the job; this process has to outlive it to say so.
child = subprocess.Popen(["sleep", "60"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sc(nr(62, 129), -1, int(signal.SIGTERM))
report("kill(-1) stays inside", child.wait(10) == -signal.SIGTERM, child.returncode)
