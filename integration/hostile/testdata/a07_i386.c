/* A7: system calls through the 32-bit gate of a 64-bit process must not be served. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void) {
#ifdef __x86_64__
	char *p = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	long r;
	strcpy(p, "/etc/passwd"); /* readable inside: only the ABI can refuse it */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(5), "b"(p), "c"(0), "d"(0) : "memory");
	printf("%s i386-open %ld\n", r < 0 ? "held" : "ESCAPED", r);
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
	printf("%s i386-getpid %ld\n", r < 0 ? "held" : "ESCAPED", r);
	register long nr __asm__("rax") = 0x40000000 + 39; /* x32 getpid */
	__asm__ volatile("syscall" : "+r"(nr) : : "rcx", "r11", "memory");
	printf("%s x32-getpid %ld\n", nr < 0 ? "held" : "ESCAPED", nr);
#else
	puts("held no-second-abi 0");
#endif
	return 0;
}
