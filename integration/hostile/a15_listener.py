# A15: a seccomp listener of the jail's own would outrank the warden's, and each filter of its own is compiled into room of the
# node's: in syd there is none to be had, by neither call and with no flag. Without a jail's filter a plain one may only tighten.
SECCOMP, PRCTL = nr(317, 277), nr(157, 167)
MKDIR = nr(83, 34)
bare = not_filtered()


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


def filters():
    return [l for l in open("/proc/self/status") if l.startswith("Seccomp")]


before = filters()
libc.prctl(38, 1, 0, 0, 0)
keep, notify = program(0x7FC00000)
for name, flags in (("listener", 8), ("listener+tsync", 8 | 1 | 16), ("listener+killable", 8 | 32), ("listener-high-bits", 8 | 1 << 40)):
    refused(name, SECCOMP, 1, flags, notify, want=("EINVAL",))
keep2, deny = program(0x00050000 | errno.EXDEV)
for name, call, args in (
    ("plain", SECCOMP, (1, 0, deny)), ("plain tsync", SECCOMP, (1, 1, deny)), ("plain log", SECCOMP, (1, 2 | 4, deny)), ("plain high bits", SECCOMP, (1 | 1 << 32, 1 << 40, deny)),
    ("plain by prctl", PRCTL, (22, 2, deny, 0, 0)), ("plain by prctl, high bits", PRCTL, (22 | 1 << 32, 2, deny, 0, 0)),
    ("unknown flag", SECCOMP, (1, 1 << 31, deny)), ("unknown mode", PRCTL, (22, 2 | 1 << 32, deny, 0, 0)), ("unknown operation", SECCOMP, (99, 0, deny)),
):
    refused(name, call, *args, want=("EINVAL",))
report("filters", bare or filters() == before, filters())
try:
    os.mkdir("x")
    made = "made"
except OSError as e:
    made = errno.errorcode[e.errno]
report("mkdir", made == ("EXDEV" if bare else "made"), made)
# And it cannot loosen: a refused call stays refused.
refused("still-refused", nr(165, 40), 0, 0, 0, 0, 0)
# What asks only is answered: programs find out that way what to do without.
action = ctypes.create_string_buffer(struct.pack("I", 0x00050000), 4)
report("action available", sc(SECCOMP, 2, 0, action)[0] == 0, "")
report("mode in force", sc(PRCTL, 21, 0, 0, 0, 0)[0] == 2, "")  # PR_GET_SECCOMP
