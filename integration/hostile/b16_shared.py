# B16: what all jobs of a node have in common, and no limit of memory or processes counts: terminals and huge pages. One job may
# take its share of the first, and nothing of the second.
masters = []
try:
    while len(masters) < 900:
        masters.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError as e:
    report("terminals", e.errno == errno.ENOSPC and 8 <= len(masters) <= 64, "%d and %s" % (len(masters), errno.errorcode[e.errno]))
else:
    report("terminals", False, len(masters))
os.close(masters.pop())
masters.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
report("a terminal given back", True, "taken again")

# ENOMEM is what a node without a pool answers too; here it is the filter's, with a denial for each.
MB2, MB1G = 21 << 26, 30 << 26
for size in (0, MB2, MB1G):
    refused("mmap huge %#x" % size, nr(9, 222), 0, 2 << 20, 3, 0x40022 | size, -1, 0, want=("ENOMEM",))
    refused("mmap shared huge %#x" % size, nr(9, 222), 0, 2 << 20, 3, 0x40021 | size, -1, 0, want=("ENOMEM",))
    refused("memfd huge %#x" % size, nr(319, 279), b"h", 4 | size, want=("ENOMEM",))
    refused("shm huge %#x" % size, nr(29, 194), 0, 2 << 20, 0o5600 | size, want=("ENOMEM",))
