# B16: what all jobs of a node have in common, and no limit of memory or processes counts: of terminals one job may take its share.
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
