/* A8: the x32 numbers of the 64-bit gate, and numbers with bits where no call has any. The kernel reads 32 of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
static long call(long nr, long a, long b, long c)
{
#ifdef __x86_64__
	register long r __asm__("rax") = nr;
	__asm__ volatile("syscall" : "+r"(r) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return r;
#else
	register long x8 __asm__("x8") = nr, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
#endif
}
static void refused(const char *name, long nr, long r)
{
	const char *verdict = r == -ENOSYS || r == -EPERM ? "refused" : r < 0 ? "ran" : "ESCAPED";
	printf("%s %s-%#lx %ld\n", verdict, name, nr, r);
	fflush(stdout);
}
int main(void)
{
#ifdef __x86_64__
	const long x32 = 0x40000000, own_open = 2, own_ptrace = 101, own_mount = 165, own_bpf = 321;
	refused("open", x32 + own_open, call(x32 + own_open, (long)"/etc/passwd", 0, 0));
	refused("getpid", x32 + 39, call(x32 + 39, 0, 0, 0));
	refused("x32-execve", x32 + 520, call(x32 + 520, 0, 0, 0));
	refused("x32-ptrace", x32 + 521, call(x32 + 521, 16, 1, 0));
	srand(7);
	for (int i = 0; i < 200; i++) {
		long nr = x32 + (rand() & 0x3fffffff);
		long r = call(nr, 0, 0, 0);
		if (r != -ENOSYS && r != -EPERM)
			refused("random", nr, r);
	}
#else
	const long own_ptrace = 117, own_mount = 40, own_bpf = 280;
#endif
	const long high[] = {0, 1L << 32, 1L << 40, 1L << 62, (long)0xffffffff00000000};
	for (int i = 0; i < 5; i++) { /* the same call, whatever is above */
		refused("ptrace", own_ptrace | high[i], call(own_ptrace | high[i], 16, 1, 0));
		refused("mount", own_mount | high[i], call(own_mount | high[i], 0, 0, 0));
		refused("bpf", own_bpf | high[i], call(own_bpf | high[i], 5, 0, 0));
	}
	const long none[] = {-1, -2, 0x7fffffff, 0x80000000, 1000000, 600};
	for (int i = 0; i < 6; i++)
		refused("no-such-call", none[i], call(none[i], 0, 0, 0));
	return 0;
}
