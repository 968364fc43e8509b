# A21: no file gives anybody another id or a capability.
import shutil, stat, subprocess
shutil.copy("/usr/bin/id", "/workspace/id")
for mode in (0o4755, 0o2755, 0o6755):
    os.chmod("/workspace/id", mode)
    out = subprocess.run(["/workspace/id", "-u"], capture_output=True, text=True).stdout.strip()
    report("%o id" % mode, out == "1000", out)
for path in ("/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newuidmap"):
    if os.path.exists(path):
        report("nosuid " + path, os.statvfs(path).f_flag & os.ST_NOSUID != 0, oct(os.stat(path).st_mode))
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    report(name, int(status[name], 16) == 0, status[name])
report("NoNewPrivs", status["NoNewPrivs"] == "1", status["NoNewPrivs"])
refused("setuid", nr(105, 146), 0, quiet=True)
refused("setresuid", nr(117, 147), 0, 0, 0, quiet=True)
refused("setgroups", nr(116, 159), 0, 0, quiet=True)
r, e = sc(nr(188, 5), b"/workspace/id", b"security.capability", ctypes.create_string_buffer(struct.pack("<5I", 0x2000001, 0xFFFFFFFF, 0, 0, 0)), 20, 0)
report("file capability", r == -1, e or "set")
