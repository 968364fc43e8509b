# F1: nothing of the agent's environment, arguments, credentials or state is to be seen: in the jail's files, in what the
# kernel says, in the memory this program was born with, or in memory it gets.
import mmap
secret = b"agent-secret" + b"-planted"
names = set(os.environ)
extra = {n for n in names if n.startswith(("AGENT", "TOLBOOTH", "SIDECAR", "STORAGE", "BUCKET", "KUBERNETES", "AWS", "GO", "SPOTFLOW", "SANDBOX"))} - {"GOMAXPROCS"}
report("environment", not extra, sorted(extra) or "ok")
hits, read = [], 0
for top, dirs, files in os.walk("/"):
    if top == "/":
        dirs[:] = [d for d in dirs if d not in ("usr", "sys", "bin", "lib", "lib64", "sbin")]
    if top.startswith(("/proc/sys/net", "/proc/tty")) or "/task/" in top or top.endswith(("/fd", "/map_files")):
        dirs[:] = []
        continue
    for name in files:
        path = os.path.join(top, name)
        if name in ("kmsg", "mem", "pagemap", "clear_refs", "attack.py", "kpagecount") or os.path.islink(path) or not top.startswith("/proc") and not os.path.isfile(path):
            continue
        try:
            with open(path, "rb", buffering=0) as f:
                os.set_blocking(f.fileno(), False)
                text = f.read(1 << 20) or b""
                read += 1
                if secret in text:
                    hits.append(path)
        except (OSError, ValueError):
            pass
report("files", not hits and read > 100, hits or read)
# The stack that the kernel and launch laid out: arguments, environment, and what lies above them.
with open("/proc/self/maps") as maps:
    lo, hi = (int(x, 16) for line in maps if "[stack]" in line for x in line.split()[0].split("-"))
with open("/proc/self/mem", "rb", buffering=0) as memory:
    memory.seek(lo)
    stack = memory.read(hi - lo)
found = [w for w in (b"SIDECAR_" + b"AUTH", b"TOLBOOTH_" + b"EXPLAINER", b"AGENT_" + b"SECRET", b"tolbooth-" + b"jail") if w in stack]
report("the stack", not found and b"attack.py" in stack, found or len(stack))
# Fresh memory is empty, whoever had it before: from the system, from a file that grew, from a pipe, from /dev/shm.
dirty = []
area = mmap.mmap(-1, 64 << 20)
if area[:].strip(b"\0"):
    dirty.append("mmap")
for path in ("/workspace/grown", "/tmp/grown", "/dev/shm/grown"):
    with open(path, "w+b") as f:
        f.truncate(8 << 20)
        os.posix_fallocate(f.fileno(), 0, 1 << 20) if path.startswith("/tmp") else None
        if f.read().strip(b"\0"):
            dirty.append(path)
report("fresh memory", not dirty, dirty or "ok")
