# E5: one line of 12 MB, with every byte that there is in it, comes through as it is.
line = bytes(range(256)).replace(b"\n", b"") * 4113
for _ in range(12):
    at = 0
    while at < len(line):
        at += os.write(1, line[at:at + 300_000])
