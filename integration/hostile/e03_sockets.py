# E3: what TCP and UDP sockets hold, to one another, stays within the job's memory limit of 64 MiB. Left to itself it grows to
# what the node has for all its sockets.
import socket


def held():
    """Pages that TCP and UDP hold; the kernel says so for the whole node."""
    lines = dict(l.split(":", 1) for l in open("/proc/net/sockstat").read().splitlines())
    return sum(int(lines[p].split()[-1]) for p in ("TCP", "UDP")) * os.sysconf("SC_PAGE_SIZE")


before, kept = held(), []
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen(200)
for _ in range(120):
    a = socket.create_connection(server.getsockname())
    b, _ = server.accept()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30)
    b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    a.setblocking(False)
    kept.append((a, b))
    try:
        while True:
            a.send(bytes(1 << 16))
    except BlockingIOError:
        pass
for _ in range(120):
    a, b = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "ab")
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)
    a.bind(("127.0.0.1", 0))
    kept.append((a, b))
    for _ in range(40):
        try:
            b.sendto(bytes(60000), socket.MSG_DONTWAIT, a.getsockname())
        except OSError:
            break
grown = held() - before
report("socket buffers", grown < 80 << 20, "%d connections hold %d MB" % (len(kept), grown >> 20))
