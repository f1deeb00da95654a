/* Makes one operation on the files of a folder fail; preloaded by io_faults.py.

   Operations on a descriptor belong to the folder if its path does. Those of other
   files pass through, so that libraries load and the test itself can read and write. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, CREATE = 2, WRITE = 4, SYNC = 8, RENAME = 16, READ = 32 };
/* What happens to the operation instead of an error. */
enum { SHORT = -1, KILL = -2 };

static char folder[PATH_MAX];
static size_t folder_length;
static int which, outcome, always;
static atomic_long seen;
static long due;

/* Fail the operation `at` (from 1) of the kinds in `kinds`: with an errno, SHORT or
   KILL; with `lasting`, and all after it. */
void fault_arm(const char *path, int kinds, long at, int how, int lasting) {
    strcpy(folder, path);
    outcome = how, always = lasting, due = at, which = kinds;
    atomic_store(&seen, 0);
    folder_length = strlen(folder);
}

/* Let everything pass; return how many operations there were. */
long fault_disarm(void) {
    folder_length = 0;
    return atomic_load(&seen);
}

static int is_due(int kind) {
    if (!(which & kind)) return 0;
    long number = atomic_fetch_add(&seen, 1) + 1;
    if (number != due && !(always && number > due)) return 0;
    if (outcome == KILL) kill(getpid(), SIGKILL);
    return 1;
}

static int in_folder(const char *path) {
    return folder_length && strncmp(path, folder, folder_length) == 0;
}

static int of_folder(int file) {
    if (!folder_length) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return in_folder(path);
}

/* Return whether the operation is to fail with an errno, which is set. */
static int fails(int kind) {
    if (!is_due(kind) || outcome == SHORT) return 0;
    errno = outcome;
    return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENS(name)                                                              \
    int name(const char *path, int flags, ...) {                                 \
        va_list rest;                                                            \
        va_start(rest, flags);                                                   \
        mode_t mode = va_arg(rest, mode_t);                                      \
        va_end(rest);                                                            \
        if (in_folder(path) && fails(flags & O_CREAT ? CREATE : OPEN)) return -1; \
        return NEXT(name)(path, flags, mode);                                    \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                           \
    int name(int at, const char *path, int flags, ...) {                         \
        va_list rest;                                                            \
        va_start(rest, flags);                                                   \
        mode_t mode = va_arg(rest, mode_t);                                      \
        va_end(rest);                                                            \
        if (in_folder(path) && fails(flags & O_CREAT ? CREATE : OPEN)) return -1; \
        return NEXT(name)(at, path, flags, mode);                                \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

/* Transfers of one buffer, of which half is taken if the operation falls short. */
#define TRANSFERS(name, kind, buffer, ...)                                       \
    ssize_t name(int file, buffer bytes, size_t count, ##__VA_ARGS__)
#define FALLS(kind, count)                                                       \
    if (of_folder(file) && is_due(kind)) {                                       \
        if (outcome != SHORT) {                                                  \
            errno = outcome;                                                     \
            return -1;                                                           \
        }                                                                        \
        count = (count + 1) / 2;                                                 \
    }

TRANSFERS(write, WRITE, const void *) {
    FALLS(WRITE, count);
    return NEXT(write)(file, bytes, count);
}
TRANSFERS(pwrite, WRITE, const void *, off_t offset) {
    FALLS(WRITE, count);
    return NEXT(pwrite)(file, bytes, count, offset);
}
TRANSFERS(pwrite64, WRITE, const void *, off64_t offset) {
    FALLS(WRITE, count);
    return NEXT(pwrite64)(file, bytes, count, offset);
}
TRANSFERS(read, READ, void *) {
    FALLS(READ, count);
    return NEXT(read)(file, bytes, count);
}
TRANSFERS(pread, READ, void *, off_t offset) {
    FALLS(READ, count);
    return NEXT(pread)(file, bytes, count, offset);
}
TRANSFERS(pread64, READ, void *, off64_t offset) {
    FALLS(READ, count);
    return NEXT(pread64)(file, bytes, count, offset);
}

/* Vectors: a short one is its first buffer, of which half is taken. */
#define VECTOR(name, kind, offset_type)                                          \
    ssize_t name(int file, const struct iovec *parts, int n, offset_type offset) { \
        struct iovec first = parts[0];                                           \
        if (of_folder(file) && is_due(kind)) {                                   \
            if (outcome != SHORT) {                                              \
                errno = outcome;                                                 \
                return -1;                                                       \
            }                                                                    \
            first.iov_len = (first.iov_len + 1) / 2;                             \
            return NEXT(name)(file, &first, 1, offset);                          \
        }                                                                        \
        return NEXT(name)(file, parts, n, offset);                               \
    }
VECTOR(preadv, READ, off_t)
VECTOR(preadv64, READ, off64_t)
VECTOR(pwritev, WRITE, off_t)
VECTOR(pwritev64, WRITE, off64_t)

int fsync(int file) {
    return of_folder(file) && fails(SYNC) ? -1 : NEXT(fsync)(file);
}
int rename(const char *from, const char *to) {
    return in_folder(to) && fails(RENAME) ? -1 : NEXT(rename)(from, to);
}
