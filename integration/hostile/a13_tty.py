# A13: nothing is typed into a terminal, whatever the upper half of the request's number holds. The kernel looks at 32 bits.
IOCTL = nr(16, 29)
master, slave = os.openpty()
for fd, where in ((0, "stdin"), (slave, "pty"), (master, "ptmx")):
    for request in (0x5412, 0x100005412, 0x541C, 0x5423):
        refused("ioctl %#x on %s" % (request, where), IOCTL, fd, request, ctypes.create_string_buffer(b"\x02x"))
