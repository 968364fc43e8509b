# B16: no call reserves disk that is not counted yet. One that is served takes what the node has, whatever the limit.
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
before = os.statvfs("/workspace").f_bavail
for where in ("/workspace/f", "/var/tmp/f"):
    fd = os.open(where, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"x" * 4096)
    for name, mode in (("", 0), ("keep size", 1), ("zero range", 16), ("zero range, keep size", 17), ("insert range", 32), ("unshare range", 64), ("write zeroes", 128)):
        ctypes.set_errno(0)
        r = libc.fallocate(fd, mode, 0, 4 << 30)
        report("fallocate %s %s" % (name, where), r == -1, errno.errorcode.get(ctypes.get_errno(), r))
    for name, request in (("RESVSP", 0x40305828), ("RESVSP64", 0x4030582A), ("ZERO_RANGE", 0x40305839), ("RESVSP, upper half", 0x140305828)):
        refused("ioctl %s %s" % (name, where), nr(16, 29), fd, request, ctypes.create_string_buffer(struct.pack("hxxxxxxqqiI16x", 0, 0, 4 << 30, 0, 0), 48), want=("ENOTSUP",))
    try:
        os.truncate(fd, 4 << 30)
        report("truncate " + where, False, os.fstat(fd).st_size)
    except OSError as e:
        report("truncate " + where, e.errno == errno.EFBIG, errno.errorcode[e.errno])
    report("blocks of " + where, os.fstat(fd).st_blocks <= 16, os.fstat(fd).st_blocks)
report("free space", before - os.statvfs("/workspace").f_bavail < 1 << 18, "of the node, within a gigabyte")
