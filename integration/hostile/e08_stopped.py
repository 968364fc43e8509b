# E8: a job that stops itself, or hangs in vfork, and hears no signal, ends at its wall limit all the same.
import signal
for sig in range(1, 65):
    try:
        signal.signal(sig, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
print("held about to stop", flush=True)
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
os.kill(0, signal.SIGSTOP)
time.sleep(60)
