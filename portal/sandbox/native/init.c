/* Process 1 of a sandbox node: runs /etc/rc.local once, keeps sshd running, reaps what is left to it. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t start(char *const argv[]) {
  pid_t pid = fork();
  if (pid == 0) {
    setsid();
    execv(argv[0], argv);
    _exit(127);
  }
  return pid;
}

int main(void) {
  char *rc_local[] = {"/etc/rc.local", 0};
  char *sshd[] = {"/usr/sbin/sshd", "-D", "-E", "/var/log/sshd.log", 0};
  signal(SIGHUP, SIG_IGN);
  if (access(rc_local[0], X_OK) == 0) start(rc_local);
  pid_t daemon = start(sshd);
  for (;;) {
    pid_t ended = wait(0);
    if (ended > 0 && ended != daemon) continue;
    sleep(1); /* a broken sshd configuration must not become a busy loop */
    if (ended == daemon || ended < 0) daemon = start(sshd);
  }
}
