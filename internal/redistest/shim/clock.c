// Sets the clock of one program: preloaded, it adds to what the kernel says so
// many seconds as the file that MORTISE_CLOCK names has in it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none, *offset = &none;

__attribute__((constructor)) static void begin(void) {
  int file = open(getenv("MORTISE_CLOCK"), O_RDONLY);
  void *at = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || at == MAP_FAILED) abort();
  offset = at;
}

int clock_gettime(clockid_t id, struct timespec *t) {
  int failed = syscall(SYS_clock_gettime, id, t);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += *offset;
  return failed;
}

int gettimeofday(struct timeval *t, void *zone) {
  int failed = syscall(SYS_gettimeofday, t, zone);
  if (!failed) t->tv_sec += *offset;
  return failed;
}

time_t time(time_t *at) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (at) *at = t.tv_sec;
  return t.tv_sec;
}
