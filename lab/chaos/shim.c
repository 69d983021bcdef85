/* Preloaded into members: wall-clock offsets and disk faults, as the control page says at this moment.
 *
 * The page is a file that the run and the member map, so a member pays no system call while nothing is wrong. Only
 * the wall clock is touched: monotonic clocks and timed waits go on. Only files with ".db" in their path have faults. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    int64_t clock_s;   /* added to the wall clock */
    int32_t error;     /* errno of each write and sync, or 0 */
    int32_t delay_us;  /* before each write and sync */
};

static struct page none;
static volatile struct page *page = &none;

__attribute__((constructor)) static void map_page(void) {
    const char *path = getenv("GOSSAMER_CHAOS_PAGE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *at = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (at != MAP_FAILED) page = at;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int fails(int file) {
    char link[64], path[4096];
    if (!page->error && !page->delay_us) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    if (!name || !strstr(name, ".db")) return 0;
    if (page->delay_us) usleep(page->delay_us);
    if (page->error) errno = page->error;
    return page->error != 0;
}

ssize_t write(int file, const void *bytes, size_t count) { REAL(write); return fails(file) ? -1 : real(file, bytes, count); }
ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) { REAL(pwrite); return fails(file) ? -1 : real(file, bytes, count, at); }
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) { REAL(pwrite64); return fails(file) ? -1 : real(file, bytes, count, at); }
int fsync(int file) { REAL(fsync); return fails(file) ? -1 : real(file); }
int fdatasync(int file) { REAL(fdatasync); return fails(file) ? -1 : real(file); }

int clock_gettime(clockid_t clock, struct timespec *found) {
    REAL(clock_gettime);
    int failed = real(clock, found);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) found->tv_sec += page->clock_s;
    return failed;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    found->tv_sec = now.tv_sec;
    found->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *found) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
