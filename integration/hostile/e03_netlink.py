# E3: netlink sockets that get the answer to a wrong message, the message itself, and never read it. The kernel charges that to
# nobody.
import socket

kept = []
while True:
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 30)  # as much as net.core.rmem_max lets it have
    kept.append(s)
    message = struct.pack("=IHHII", 30016, 9999, 5, 1, 0) + bytes(30000)  # of no known type, with an answer asked for
    for _ in range(300):  # more than go in: what does not is dropped without a word
        try:
            s.send(message)
        except OSError:
            break
    if len(kept) > 400:
        break
report("unread netlink messages", False, "%d sockets are full" % len(kept))
