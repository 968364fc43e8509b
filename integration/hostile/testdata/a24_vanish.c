/* A24: callers that die, stop, execute or are interrupted in the middle of a refused call. Whoever answers must never take
 * one for another, never hang, and never let a call run. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60 };
static volatile int wrong; /* an errno that is none of ours, or success */

static int attempt(void)
{
	if (syscall(SYS_ptrace, 16, 1, 0, 0) == 0 || (errno != EPERM && errno != ENOSYS))
		wrong = errno ? errno : -1;
	if (syscall(SYS_mount, 0, 0, 0, 0, 0) == 0 || (errno != EPERM && errno != ENOSYS))
		wrong = errno ? errno : -1;
	return wrong;
}
static void *hammer(void *arg)
{
	for (;;)
		attempt();
	return arg;
}
static void said(const char *name)
{
	printf("%s %s %d\n", wrong ? "ESCAPED" : "held", name, wrong);
	fflush(stdout);
	wrong = 0;
}
static int *shared;

static void child(void (*fn)(void))
{
	pid_t pid = fork();
	if (pid == 0) {
		fn();
		if (wrong)
			*shared = wrong;
		_exit(0);
	}
	usleep(rand() % 700);
	kill(pid, SIGKILL);
	while (waitpid(pid, 0, 0) < 0 && errno == EINTR)
		;
	if (*shared)
		wrong = *shared;
}
static void alone(void) { hammer(0); }
static void threads(void)
{
	pthread_t t;
	for (int i = 0; i < 4; i++)
		pthread_create(&t, 0, hammer, 0);
	hammer(0);
}
/* execve by a thread that is not the first, while others hang in refused calls: the kernel ends them all, and the caller
 * takes over the number of the first. */
static void *execute(void *arg)
{
	usleep(rand() % 500);
	execl("/bin/true", "true", (char *)0);
	return arg;
}
static void execs(void)
{
	pthread_t t;
	for (int i = 0; i < 3; i++)
		pthread_create(&t, 0, hammer, 0);
	pthread_create(&t, 0, execute, 0);
	hammer(0);
}
static void stops(void)
{
	pid_t me = getpid();
	if (fork() == 0) {
		while (kill(me, SIGSTOP) == 0 && kill(me, SIGCONT) == 0)
			;
		_exit(0); /* killed and waited for */
	}
	hammer(0);
}
static void vforks(void)
{
	for (;;) {
		if (vfork() == 0) {
			attempt();
			execl("/bin/true", "true", (char *)0);
			_exit(1);
		}
		attempt();
	}
}
static volatile int alarms;
static void on_alarm(int sig) { alarms += sig > 0; }
/* One signal, at a moment within the next call or two. A timer that repeats could, where every signal stops for a tracer and the
 * machine is busy, leave no time between two signals for anything else. */
static void soon(void)
{
	struct itimerval once = {{0, 0}, {0, 1 + rand() % 150}};
	setitimer(ITIMER_REAL, &once, 0);
}

int main(void)
{
	shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct { const char *name; void (*fn)(void); } all[] = {
		{"killed-one", alone}, {"killed-threads", threads}, {"exec-among-threads", execs}, {"stopped", stops}, {"vfork", vforks},
	};
	attempt();
	if (wrong) { /* no filter: there is nothing to be in the middle of */
		puts("held no-filter 0");
		return 0;
	}
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		for (int n = 0; n < ROUNDS; n++)
			child(all[i].fn);
		kill(-1, SIGCONT);
		said(all[i].name);
	}
	/* Signals with a handler that asks for a restart: the answer is the policy's, and no call is made again to the end of
	 * time. */
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval none = {{0, 0}, {0, 0}};
	sigaction(SIGALRM, &sa, 0);
	for (int i = 0; i < 1500; i++) {
		soon();
		attempt();
	}
	said("restarted");
	/* Without a restart the kernel may answer EINTR as long as nobody has received the notification. It has not run the call
	 * then either, and the next one is refused. */
	sa.sa_flags = 0;
	sigaction(SIGALRM, &sa, 0);
	int interrupted = 0;
	for (int i = 0; i < 1500; i++) {
		soon();
		long r = syscall(SYS_ptrace, 16, 1, 0, 0);
		interrupted += r < 0 && errno == EINTR;
		if (r == 0 || (errno != EPERM && errno != EINTR))
			wrong = errno ? errno : -1;
	}
	setitimer(ITIMER_REAL, &none, 0);
	attempt();
	if (alarms < 500) { /* the signals came elsewhere: nothing was tried */
		printf("ESCAPED only-%d-alarms 0\n", alarms);
		return 1;
	}
	said("interrupted");
	printf("held alarms %d, EINTR %d\n", alarms, interrupted);
	return 0;
}
