# E1: the pids limit ends it by name.
while 1:
    os.fork()
