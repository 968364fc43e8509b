# A1: a path that changes while the kernel or the warden may read it opens nothing that the view does not hold.
open("/tmp/ok", "w").write("x")
good, bad = b"/tmp/ok\0\0\0\0\0\0\0\0", b"/etc/shadow\0\0\0\0"
buf = ctypes.create_string_buffer(16)
stop = False


def flip():
    while not stop:
        ctypes.memmove(buf, good, 12)
        ctypes.memmove(buf, bad, 12)


threading.Thread(target=flip, daemon=True).start()
leaks = opened = 0
for _ in range(20000):
    fd = libc.open(buf, 0)
    if fd >= 0:
        opened += 1
        leaks += os.read(fd, 64) not in (b"x", b"")
        os.close(fd)
stop = True
report("shadow", leaks == 0, "%d of %d" % (leaks, opened))
report("the other file is still read", opened > 0, opened)
