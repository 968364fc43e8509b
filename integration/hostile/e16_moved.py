# E16: moving deep directories about, so that hardly any walk over the tree comes to its end, hides no use of the disk.
os.makedirs(".first/0")
os.chdir(".first")
cur = os.open("0", os.O_RDONLY)
for _ in range(75):
    os.mkdir("d", dir_fd=cur)
    below = os.open("d", os.O_RDONLY, dir_fd=cur)
    os.close(cur)
    cur = below
for i in range(2000):
    os.mkdir("x%d" % i, dir_fd=cur)
if os.fork() == 0:
    with open("/workspace/zz", "wb") as f:
        for _ in range(70):
            f.write(bytes(1 << 20))
            time.sleep(0.02)
    time.sleep(60)
deadline = time.time() + 60
while time.time() < deadline:
    os.rename("0/d/d", "/workspace/.z")
    os.rename("/workspace/.z", "0/d/d")
