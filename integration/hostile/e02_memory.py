# E2: the memory limit ends it by name.
x = []
while 1:
    x.append(bytearray(1 << 20))
