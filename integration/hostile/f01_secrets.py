# F1: nothing of the agent's environment or arguments is to be seen.
secret = b"agent-secret" + b"-planted"
names = set(os.environ)
extra = {n for n in names if n.startswith(("AGENT", "TOLBOOTH", "SIDECAR", "STORAGE", "BUCKET", "KUBERNETES", "AWS"))}
report("environment", not extra, sorted(extra) or "ok")
hits = []
for top in ("/proc", "/etc", "/run", "/tmp", "/var", "/home", "/dev/shm", "/workspace"):
    for d, dirs, files in os.walk(top):
        if d.startswith(("/proc/sys", "/proc/tty")) or "/task/" in d or d.endswith("/fd"):
            dirs[:] = []
            continue
        for name in files:
            path = os.path.join(d, name)
            if name in ("kmsg", "mem", "pagemap", "clear_refs", "attack.py") or os.path.islink(path) or top != "/proc" and not os.path.isfile(path):
                continue
            try:
                with open(path, "rb") as f:
                    if secret in f.read(1 << 20):
                        hits.append(path)
            except (OSError, ValueError):
                pass
report("files", not hits, hits or "ok")
