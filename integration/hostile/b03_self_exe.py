# B3: the program that started the job cannot be written, by way of a script that it would run itself (CVE-2019-5736).
import subprocess
with open("/workspace/again", "w") as f:
    f.write("#!/proc/self/exe\n")
os.chmod("/workspace/again", 0o755)
for path in ("/proc/self/exe", "/proc/1/exe", "/proc/thread-self/exe", "/usr/bin/python3", "/usr/bin/env"):
    unopenable(path, os.O_WRONLY)
    unopenable(path, os.O_WRONLY | os.O_TRUNC)
for _ in range(20):
    p = subprocess.Popen(["/workspace/again"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        fd = os.open("/proc/%d/exe" % p.pid, os.O_WRONLY)
    except OSError:
        pass
    else:
        report("write exe", False, os.readlink("/proc/self/fd/%d" % fd))
    p.wait()
report("20 scripts", True, "none writable")
