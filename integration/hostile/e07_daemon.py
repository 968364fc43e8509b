# E7: a daemon that keeps stdout open does not hold the result back, and does not outlive it.
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
print("held parent done", flush=True)
os._exit(0)
