# What an overlay takes as its own marks, made by hand: whiteouts, opaque directories, redirects, metadata without data. None of
# them may uncover, cover or reach anything that is not the job's.
def attempt(name, call, *args, **kw):
    try:
        call(*args, **kw)
    except OSError as e:
        report(name, True, errno.errorcode[e.errno])
        return False
    return True


for where in ("/workspace", "/var/tmp", "/tmp", "/dev/shm"):
    if attempt("whiteout " + where, os.mknod, where + "/w", 0o20000, 0):
        report("whiteout " + where, not_filtered() or where in ("/tmp", "/dev/shm"), "made")
listing = {d: sorted(os.listdir(d)) for d in ("/", "/etc", "/usr", "/usr/bin")}
for mark, value in (("opaque", b"y"), ("redirect", b"/../../../etc"), ("redirect", b"/usr"), ("metacopy", b""), ("whiteout", b"y"), ("origin", b"\0" * 32), ("nlink", b"U+9"), ("impure", b"y"), ("upper", b"x")):
    for prefix in ("trusted.overlay.", "user.overlay."):
        d = "/workspace/%s%d" % (mark, len(value))
        os.makedirs(d, exist_ok=True)
        done = attempt("set %s%s" % (prefix, mark), os.setxattr, d, prefix + mark, value)
        if done:
            report("set %s%s" % (prefix, mark), prefix == "user.overlay.", "set")
        report("below %s%s" % (prefix, mark), os.listdir(d) == [], os.listdir(d))
for d in ("/", "/etc", "/usr", "/usr/bin"):
    for prefix in ("trusted.overlay.opaque", "user.overlay.opaque"):
        if attempt("set on " + d, os.setxattr, d, prefix, b"y"):
            report("set on " + d, False, "set")
for name in ("trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.origin"):
    if attempt("get " + name, os.getxattr, "/", name):
        report("get " + name, False, "read")

# renameat2: an exchange, and the whiteout that only overlays and root leave behind.
EXCHANGE, WHITEOUT, NOREPLACE = 2, 4, 1
RENAMEAT2 = nr(316, 276)
os.makedirs("/workspace/mine", exist_ok=True)
for target in ("/usr", "/etc", "/dev", "/proc", "/tmp", "/run", "/etc/passwd", "/usr/bin", "/bin", "/sys"):
    for flag in (EXCHANGE, WHITEOUT, 0):
        r, e = sc(RENAMEAT2, -100, b"/workspace/mine", -100, target.encode(), flag)
        report("rename over %s by %d" % (target, flag), r == -1, e)
        r, e = sc(RENAMEAT2, -100, target.encode(), -100, b"/workspace/mine2", flag)
        report("rename %s away by %d" % (target, flag), r == -1, e)
with open("/workspace/f", "w") as f:
    f.write("x")
r, e = sc(RENAMEAT2, -100, b"/workspace/f", -100, b"/workspace/g", WHITEOUT)
report("rename leaving a whiteout", r == -1 or not_filtered(), e)

# Hard links to what is not the job's.
for target in ("/usr/bin/id", "/etc/passwd", "/etc/hosts", "/proc/self/exe", "/proc/self/fd/0", "/dev/null"):
    for flag in (0, 0x400):  # AT_SYMLINK_FOLLOW
        r, e = sc(nr(265, 37), -100, target.encode(), -100, b"/workspace/link", flag)
        mine = r == 0 and os.lstat("/workspace/link").st_uid == os.getuid()
        report("link %s %x" % (target, flag), r == -1 or mine, e or "a link of the job's own")
        if r == 0:
            os.unlink("/workspace/link")
r, e = sc(nr(265, 37), os.open("/usr/bin/id", os.O_PATH), b"", -100, b"/workspace/link", 0x1000)  # AT_EMPTY_PATH
report("link by descriptor", r == -1, e)
for path in ("/usr/bin/id", "/etc/hosts", "/bin/sh"):
    for name, call in (("write", lambda p: open(p, "a")), ("unlink", os.unlink), ("chmod", lambda p: os.chmod(p, 0o777)), ("utime", os.utime), ("truncate", lambda p: os.truncate(p, 0))):
        if attempt("%s %s" % (name, path), call, path):
            report("%s %s" % (name, path), False, "done")

# The most that a name and an extended attribute may hold.
big, sizes = "/workspace/big", []
open(big, "w").close()
for size in (1 << 10, 4000, 1 << 14, 1 << 16):
    for i in range(200):
        try:
            os.setxattr(big, "user.%d.%d" % (size, i), b"v" * size)
            sizes.append(size)
        except OSError:
            break
report("large attributes", True, "%d bytes" % sum(sizes))
report("listings", all(sorted(os.listdir(d)) == names for d, names in listing.items()), "same")
