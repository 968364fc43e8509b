# A15: a seccomp listener of the jail's own would outrank the warden's. A plain further filter may only tighten.
SECCOMP = nr(317, 277)
MKDIR = nr(83, 34)


def program(action):
    code = b"".join(
        (
            struct.pack("HBBI", 0x20, 0, 0, 0),
            struct.pack("HBBI", 0x15, 0, 1, MKDIR),
            struct.pack("HBBI", 0x06, 0, 0, action),
            struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000),
        )
    )
    b = ctypes.create_string_buffer(code, len(code))
    return b, ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(b)), 16)


libc.prctl(38, 1, 0, 0, 0)
keep, notify = program(0x7FC00000)
for name, flags in (("listener", 8), ("listener+tsync", 8 | 1 | 16), ("listener+killable", 8 | 32), ("listener-high-bits", 8 | 1 << 40)):
    r, e = sc(SECCOMP, 1, flags, notify)
    report(name, r == -1 and e in ("EPERM", "EBUSY"), e or r)
keep2, deny = program(0x00050000 | errno.EXDEV)
r, e = sc(SECCOMP, 1, 0, deny)
report("plain-filter", r == 0, "installed" if r == 0 else e)
try:
    os.mkdir("x")
    report("tightened", False, "mkdir worked")
except OSError as e:
    report("tightened", e.errno == errno.EXDEV, errno.errorcode[e.errno])
# And it cannot loosen: a refused call stays refused under an allow-all filter of the jail's own.
refused("still-refused", nr(165, 40), 0, 0, 0, 0, 0)
