# E16: deleted files that are still open, or mapped, take disk space like any other.
import mmap
kept = []
for i in range(12):
    fd = os.open("gone%d" % i, os.O_RDWR | os.O_CREAT)
    os.unlink("gone%d" % i)
    for _ in range(10):
        os.write(fd, bytes(1 << 20))
    if i % 2:
        kept.append(mmap.mmap(fd, 10 << 20))
        os.close(fd)
time.sleep(60)
