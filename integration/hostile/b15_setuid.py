# B15: set-id bits, file capabilities and other owners gain nothing, on any file system that the job can write to.
import shutil, stat, subprocess

for where in ("/workspace", "/tmp", "/dev/shm", "/var/tmp", "/run"):
    copy = where + "/id"
    try:
        shutil.copy("/usr/bin/id", copy)
        os.chmod(copy, 0o6755)
    except OSError as e:
        report("copy to " + where, True, errno.errorcode[e.errno])
        continue
    for uid in (0, 1, 65534, 999):
        try:
            os.chown(copy, uid, uid)
            report("chown %d %s" % (uid, where), False, "given away")
        except OSError as e:
            report("chown %d %s" % (uid, where), True, errno.errorcode[e.errno])
    for name in (b"security.capability", b"security.ima", b"trusted.overlay.opaque", b"system.posix_acl_access"):
        value = struct.pack("=IIIII", 0x02000001, 0xFFFFFFFF, 0, 0xFFFFFFFF, 0)
        try:
            os.setxattr(copy, name, value)
            report("setxattr %s %s" % (name.decode(), where), False, "set")
        except OSError as e:
            report("setxattr %s %s" % (name.decode(), where), True, errno.errorcode[e.errno])
    try:
        ids = subprocess.run([copy, "-u"], capture_output=True, text=True).stdout.strip()
    except OSError as e:
        ids = errno.errorcode[e.errno]
    report("set-id in " + where, ids in ("1000", "EACCES"), ids)
before = open("/proc/self/status").read()
for program in ("/usr/bin/su", "/usr/bin/sudo", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/newuidmap", "/usr/bin/ping", "/usr/bin/chsh"):
    if not os.path.exists(program):
        continue
    p = subprocess.Popen([program], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        lines = [l.split()[1:] for l in open("/proc/%d/status" % p.pid) if l.startswith(("Uid:", "Gid:"))]
        report("ids of " + program, all(x == "1000" for l in lines for x in l), lines)
    except (FileNotFoundError, ProcessLookupError):
        report("ids of " + program, True, "gone")
    p.kill()
    p.wait()
for line in before.splitlines():
    if line.startswith(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")):
        report(line.split(":")[0], int(line.split()[1], 16) == 0, line)
