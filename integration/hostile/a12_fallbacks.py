# A12: calls that language runtimes try first either work or say ENOSYS. EPERM would break the runtimes.
buf = ctypes.create_string_buffer(4096)
how = ctypes.create_string_buffer(24)
for name, x86, arm, args in (
    ("faccessat2", 439, 439, (-100, b"/", 0, 0)), ("statx", 332, 291, (-100, b"/", 0, 0xFFF, buf)),
    ("openat2", 437, 437, (-100, b"/", how, 24)), ("close_range", 436, 436, (900, 901, 0)),
    ("rseq", 334, 293, (0, 0, 0, 0)), ("futex_waitv", 449, 449, (0, 0, 0, 0, 0)), ("clone3", 435, 435, (buf, 64)),
    ("memfd_create", 319, 279, (b"x", 1)), ("getrandom", 318, 278, (buf, 16, 0)), ("membarrier", 324, 283, (0, 0, 0)),
    ("copy_file_range", 326, 285, (-1, 0, -1, 0, 1, 0)), ("pidfd_open", 434, 434, (os.getpid(), 0)),
    ("epoll_pwait2", 441, 441, (-1, buf, 1, 0, 0, 8)), ("preadv2", 327, 286, (-1, buf, 1, 0, 0, 0)),
):
    r, e = sc(nr(x86, arm), *args)
    report(name, e not in ("EPERM", "EACCES"), e or "ok")
