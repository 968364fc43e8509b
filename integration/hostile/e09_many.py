# E9: ten thousand zombies in all, as many at once as the job may have, whose parents never wait.
made = 0
while made < 10_000:
    for _ in range(10):
        if os.fork() == 0:
            for _ in range(9):
                if os.fork() == 0:
                    os._exit(0)
            os._exit(0)
        made += 10
    for _ in range(10):
        os.wait()
for _ in range(60):
    if os.fork() == 0:
        os._exit(0)
print("held made", made, flush=True)
