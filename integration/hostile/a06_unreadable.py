# A6: an argument that cannot be read is the caller's fault (EFAULT), whoever looks: the kernel or a warden. It never
# makes a refused call one that runs.
import mmap, socket
PROT_NONE = 0
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
page = libc.mmap(None, 4096, 3, 0x22, -1, 0)
ctypes.memmove(page, b"/etc/passwd\0", 12)
P = ctypes.c_void_p
libc.mprotect(page, 4096, PROT_NONE)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for where, address in (("protected", page), ("unmapped", 4096), ("kernel", 0xFFFFFFFF80000000), ("odd", 0xDEAD000000000001)):
    a = P(address)
    for name, number, args in (
        ("open", nr(257, 56), (-100, a, 0, 0)), ("stat", nr(262, 79), (-100, a, a, 0)), ("execve", nr(59, 221), (a, a, a)),
        ("connect", nr(42, 203), (udp.fileno(), a, 16)), ("sendmsg", nr(46, 211), (udp.fileno(), a, 0)), ("mkdir", nr(258, 34), (-100, a, 0o700)),
    ):
        answered("%s %s" % (name, where), *sc(number, *args), want=("EFAULT",), quiet=True)
    for name, number, args in (
        ("mount", nr(165, 40), (a, a, a, 0, a)), ("bpf", nr(321, 280), (5, a, 64)), ("keyctl", nr(250, 219), (0, a)), ("open_tree", 428, (-100, a, 1)),
        ("process_vm_readv", nr(310, 270), (os.getpid(), a, 1, a, 1, 0)), ("seccomp", nr(317, 277), (1, 8, a)), ("unshare", nr(272, 97), (0x10000000,)),
    ):
        refused("%s %s" % (name, where), number, *args, want=("EINVAL",) if name == "seccomp" else ("EPERM", "ENOSYS"))

# While the page comes and goes.
stop = False


def blink():
    while not stop:
        libc.mprotect(page, 4096, PROT_NONE)
        libc.mprotect(page, 4096, 3)


t = threading.Thread(target=blink)
t.start()
answers = {}
for _ in range(2000):
    for number, args in ((nr(165, 40), (P(page), P(page), P(page), 0, P(page))), (nr(101, 117), (16, 1, P(page), P(page)))):
        r, e = sc(number, *args)
        answers[e or r] = answers.get(e or r, 0) + 1
stop = True
t.join()
report("refused while memory blinks", set(answers) == {"EPERM"} or not_filtered(), answers)
