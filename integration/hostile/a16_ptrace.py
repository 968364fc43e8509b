# A16: nobody traces anybody.
PTRACE = nr(101, 117)
child = os.fork()
if child == 0:
    time.sleep(5)
    os._exit(0)
refused("traceme", PTRACE, 0, 0, 0, 0)
for name, pid in (("init", 1), ("parent", os.getppid()), ("child", child), ("self", os.getpid())):
    refused("seize-" + name, PTRACE, 0x4206, pid, 0, 0)
    refused("attach-" + name, PTRACE, 16, pid, 0, 0)
os.kill(child, 9)
os.waitpid(child, 0)
