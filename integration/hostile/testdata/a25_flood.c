/* A25: nothing but refused calls, from eight threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *flood(void *arg)
{
	for (unsigned n = 0;; n++)
		syscall(SYS_ptrace, 16, n, 0, 0);
	return arg;
}
int main(void)
{
	pthread_t t;
	for (int i = 0; i < 7; i++)
		pthread_create(&t, 0, flood, 0);
	flood(0);
}
