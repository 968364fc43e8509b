# A15, the whole loop: a program that gets hold of a listener has a thread answer "go on" to each of its refused calls. In syd it
# gets no filter, and its calls are answered as before it asked. Elsewhere, whatever an own filter answers instead, a refused call
# stays refused.
bare = not_filtered()
SECCOMP = nr(317, 277)
RECV, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
CALLS = {
    "mount": (nr(165, 40), (b"none", b"/tmp", b"tmpfs", 0, 0)), "ptrace": (nr(101, 117), (16, 1, 0, 0)), "unshare": (nr(272, 97), (0x00020000,)),
    "bpf": (nr(321, 280), (5, 0, 0)), "chroot": (nr(161, 51), (b"/tmp",)), "raw": (nr(41, 198), (2, 3, 1)), "packet": (nr(41, 198), (17, 3, 0)),
    "clone": (nr(56, 220), (0x10000000 | 17, 0, 0, 0, 0)), "sethostname": (nr(170, 161), (b"x", 1)),
}


def install(action, flags, numbers):
    code = struct.pack("HBBI", 0x20, 0, 0, 0)
    for n in numbers:
        code += struct.pack("HBBI", 0x15, 0, 1, n) + struct.pack("HBBI", 0x06, 0, 0, action)
    code += struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    b = ctypes.create_string_buffer(code, len(code))
    prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(b)), 16)
    return sc(SECCOMP, 1, flags, prog)


def answer(fd):
    while True:
        n = ctypes.create_string_buffer(80)
        if libc.ioctl(fd, ctypes.c_ulong(RECV), n) == 0:
            (id,) = struct.unpack_from("Q", n)
            libc.ioctl(fd, ctypes.c_ulong(SEND), ctypes.create_string_buffer(struct.pack("QqiI", id, 0, 0, CONTINUE), 24))


libc.prctl(38, 1, 0, 0, 0)
numbers = sorted({n for n, _ in CALLS.values()})
for flags in (8, 8 | 16, 8 | 32, 8 | 1 | 16, 8 | 2 | 4):
    child = os.fork()
    if child == 0:
        fd, e = install(0x7FC00000, flags, numbers)
        if fd == -1:
            answered("listener %#x" % flags, fd, e, want=("EINVAL",))
            os._exit(0)
        report("listener %#x" % flags, False, fd)
        # Threads that are born now have the filter too, but answering makes none of its calls.
        threading.Thread(target=answer, args=(fd,), daemon=True).start()
        for name, (number, args) in CALLS.items():
            r, e = sc(number, *args)
            if r == 0 and name == "clone":
                os._exit(0)
            answered("%s by listener %#x" % (name, flags), r, e)
        os._exit(0)
    os.waitpid(child, 0)

BROKER = 0xF000
for what, action in (("user_notif", 0x7FC00000), ("trace", 0x7FF00000), ("trace-errno", 0x7FF00001), ("trace-broker", 0x7FF00000 | BROKER),
                     ("log", 0x7FFC0000), ("allow", 0x7FFF0000), ("errno-0", 0x00050000)):
    child = os.fork()
    if child == 0:
        r, e = install(action, 0, numbers)
        if not bare:
            answered("install " + what, r, e, want=("EINVAL",))
        elif r == -1:
            report("install " + what, False, e)
            os._exit(1)
        for name, (number, args) in CALLS.items():
            r, e = sc(number, *args)
            # errno-0 answers 0 without running anything: it is the program that fools itself.
            fooled = bare and what == "errno-0"
            if r == 0 and name == "clone" and not fooled:
                os._exit(0)
            if fooled:
                report("%s under %s" % (name, what), r == 0 or e in ("EPERM", "ENOSYS"), e or r)
            else:
                answered("%s under %s" % (name, what), r, e, quiet=True)
        os._exit(0)
    os.waitpid(child, 0)

# Allowed calls that an own filter would send to whoever traces, to be served by somebody outside the jail: without that filter they
# are the kernel's. Where it is in force, they are answered as a kernel without a tracer does, and nothing is opened.
child = os.fork()
if child == 0:
    SOCKET, GETPPID = nr(41, 198), nr(110, 173)
    r, e = install(0x7FF00000 | BROKER, 0, [SOCKET, GETPPID])
    if not bare:
        answered("install broker", r, e, want=("EINVAL",))
    for name, number, args in (("tcp", SOCKET, (2, 1, 0)), ("unix", SOCKET, (1, 1, 0)), ("getppid", GETPPID, ())):
        r, e = sc(number, *args)
        report("%s by way of the broker" % name, (r == -1) == bare, e or r)
    os._exit(0)
os.waitpid(child, 0)
