# B1: no way above the jail's root, by whatever descriptor was kept and through whatever /proc names. In minimal the node's mounts
# stay in the jail's mount namespace, and this is the only wall before them.
import glob


def node(fd):
    """Whether a directory is the node's root: its canary lies there."""
    return any(n.startswith("host-canary-") for n in os.listdir(fd))


def climb(name, fd):
    """Goes up from a directory as far as it goes, and looks where that is."""
    os.fchdir(fd)
    for _ in range(64):
        os.chdir("..")
    at = os.open(".", os.O_RDONLY)
    report("climb " + name, not node(at) and os.stat(at).st_ino == os.stat("/").st_ino, os.getcwd())
    for path in ("../" * 64, "../" * 64 + "proc/1/root"):
        try:
            top = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        except OSError as e:
            report("open up from " + name, True, errno.errorcode[e.errno])
        else:
            report("open up from " + name, not node(top), os.readlink("/proc/self/fd/%d" % top))


os.makedirs("/workspace/x/y/z")
kept = {d: os.open(d, os.O_RDONLY | os.O_DIRECTORY) for d in ("/", "/workspace/x", "/tmp", "/dev", "/dev/shm", "/usr", "/run", "/proc", "/proc/self", "/sys")}
refused("chroot", nr(161, 51), b"/workspace/x")
for name, fd in kept.items():
    os.fchdir(fd)
    refused("chroot . in " + name, nr(161, 51), b".")
    climb(name, fd)
for path in ("/proc/self/root/..", "/proc/thread-self/root/../..", "/proc/self/cwd/../../..", "/proc/self/task/%d/root/.." % os.getpid(), "/proc/self/fd/%d/../../.." % kept["/tmp"]):
    at = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    report("by " + path, not node(at), os.readlink("/proc/self/fd/%d" % at))
for what in ("root", "cwd", "fd", "map_files", "ns/mnt", "task/1/root", "exe"):
    unopenable("/proc/1/" + what)

# Other processes of the jail are the only ones there are, and the roots of those that can be asked for are this root.
for root in glob.glob("/proc/[0-9]*/root"):
    try:
        at = os.open(root, os.O_RDONLY)
    except OSError as e:
        report("root of another", True, errno.errorcode[e.errno])
    else:
        report("root of another", not node(at), root)

# A directory that is moved up while somebody stands below it: its ".." must not lead past the root.
stop = False


def move():
    while not stop:
        os.rename("/workspace/x/y/z", "/workspace/z")
        os.rename("/workspace/z", "/workspace/x/y/z")


inside = os.open("/workspace/x/y/z", os.O_RDONLY)
mover = threading.Thread(target=move)
mover.start()
out = 0
for _ in range(3000):
    at = os.open("../" * 8, os.O_RDONLY, dir_fd=inside)
    out += os.stat(at).st_ino != os.stat("/").st_ino or node(at)
    os.close(at)
stop = True
mover.join()
report("moved away", out == 0, "%d of 3000 looks up" % out)

# The mount namespace of init, by way of the process itself.
pidfd = os.pidfd_open(1)
answered("setns mount namespace of init", *sc(nr(308, 268), pidfd, 0x20000))
answered("setns all namespaces of init", *sc(nr(308, 268), pidfd, 0x7E020000))

# The kernel's list of mounts is that below this root: statmount(2) and listmount(2) are younger than most filters.
shown = {int(line.split()[0]) for line in open("/proc/self/mountinfo")}
ids = (ctypes.c_uint64 * 512)()
request = ctypes.create_string_buffer(struct.pack("=IIQQQ", 32, 0, 0xFFFFFFFFFFFFFFFF, 0, 0), 32)
n, e = sc(458, request, ids, 512, 0)
report("listmount", n == -1 or n <= len(shown), "%d of %d, %s" % (n, len(shown), e))
