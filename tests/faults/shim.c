/* Records what a process changes in a folder, and fails a chosen change.

   Loaded with LD_PRELOAD. `shim_start` begins a recording, `shim_fail` chooses the change that
   fails, `shim_stop` ends it. C++ writers of TensorFlow use stdio, whose calls of write(2) are
   inside of libc: therefore fwrite, fflush and fclose are wrapped too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum Change { CREATE = 1, TRUNCATE, WRITE, FLUSH, SYNC, RENAME, UNLINK, MKDIR, RMDIR };
enum Kind { NONE, ERROR, SHORT, FULL, GONE, KILL };

static char root[PATH_MAX];
static size_t root_length;
static int log_fd = -1;
static long num_changes, failing = -1;
static enum Kind kind;
static int failing_errno;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

void shim_start(const char *folder, const char *log) {
  log_fd = log ? REAL(open)(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
  snprintf(root, sizeof root, "%s", folder);
  num_changes = 0, failing = -1, kind = NONE;
  root_length = strlen(root);
}

void shim_fail(long change, int how, int error) {
  failing = change, kind = how, failing_errno = error;
}

long shim_stop(void) {
  root_length = 0;
  if (log_fd >= 0) REAL(close)(log_fd);
  log_fd = -1;
  return num_changes;
}

static int within(const char *path) {
  return root_length && !strncmp(path, root, root_length) &&
         (path[root_length] == '/' || !path[root_length]);
}

/* Writes the absolute path of `path` in the folder `at`, or of a descriptor. */
static const char *resolve(int at, const char *path, char *buffer) {
  if (!root_length || (path && (path[0] == '/' || at == AT_FDCWD))) return path ? path : "";
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", at);
  ssize_t length = readlink(link, buffer, PATH_MAX - 1);
  if (length < 0) return "";
  buffer[length] = 0;
  if (path) snprintf(buffer + length, PATH_MAX - length, "/%s", path);
  return buffer;
}

static void put(const void *data, size_t size) {
  ssize_t written = REAL(write)(log_fd, data, size);
  (void)written;
}

static void record(enum Change change, const char *path, const char *to, int64_t offset,
                   const void *data, uint64_t size) {
  if (log_fd < 0) return;
  int saved = errno;
  uint32_t head[3] = {change, strlen(path), to ? strlen(to) : 0};
  put(head, sizeof head), put(&offset, 8), put(&size, 8);
  put(path, head[1]), put(to ? to : "", head[2]), put(data, size);
  errno = saved;
}

/* Ends the process as `kill -9` does, and tells standard error where. */
static void die(const char *path) {
  dprintf(STDERR_FILENO, "killed at change %ld: %s\n", num_changes - 1, path);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Counts a change; returns how it fails. A killed process has written half of its bytes. */
static enum Kind decide(enum Change change, const char *path) {
  if (!within(path)) return NONE;
  long number = num_changes++;
  if (kind == KILL) {
    if (number == failing && change != WRITE) die(path);
    return number == failing ? SHORT : NONE;
  }
  int grows = change == CREATE || change == WRITE || change == MKDIR || change == SYNC ||
              change == FLUSH;
  int is_hit = failing >= 0 && (kind == GONE || (kind == FULL && grows) ? number >= failing
                                                                        : number == failing);
  if (!is_hit || (kind == SHORT && change != WRITE) || (kind == FULL && !grows)) return NONE;
  errno = failing_errno;
  return kind == SHORT ? SHORT : ERROR;
}

#define BEGIN(at, name)                                     \
  char buffer[PATH_MAX];                                    \
  pthread_mutex_lock(&lock);                                \
  const char *path = resolve(at, name, buffer)
#define END(result)             \
  pthread_mutex_unlock(&lock);  \
  return result

static int open_file(int at, const char *name, int flags, mode_t mode) {
  BEGIN(at, name);
  int result = -1;
  struct stat found;
  int exists = !fstatat(at, name, &found, 0);
  int makes = within(path) && (flags & O_CREAT) && !exists;
  int cuts = within(path) && (flags & O_TRUNC) && exists && found.st_size;
  enum Kind how = makes || cuts ? decide(makes ? CREATE : TRUNCATE, path) : NONE;
  if (how != ERROR) result = REAL(openat)(at, name, flags, mode);
  if (result >= 0 && (makes || cuts)) record(makes ? CREATE : TRUNCATE, path, 0, 0, 0, 0);
  END(result);
}

#define OPEN(function, ...)                                             \
  int function(__VA_ARGS__, int flags, ...) {                           \
    va_list rest;                                                       \
    va_start(rest, flags);                                              \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                       \
    return open_file(AT, name, flags, mode);                            \
  }
#define AT AT_FDCWD
OPEN(open, const char *name)
OPEN(open64, const char *name)
#undef AT
#define AT at
OPEN(openat, int at, const char *name)
OPEN(openat64, int at, const char *name)

static FILE *open_stream(const char *name, const char *mode) {
  BEGIN(AT_FDCWD, name);
  FILE *result = 0;
  int writes = within(path) && mode[0] != 'r', exists = !access(name, F_OK);
  int changes = writes && (!exists || mode[0] == 'w');
  enum Kind how = changes ? decide(exists ? TRUNCATE : CREATE, path) : NONE;
  if (how != ERROR) result = REAL(fopen)(name, mode);
  if (result && changes) record(exists ? TRUNCATE : CREATE, path, 0, 0, 0, 0);
  END(result);
}
FILE *fopen(const char *name, const char *mode) { return open_stream(name, mode); }
FILE *fopen64(const char *name, const char *mode) { return open_stream(name, mode); }

ssize_t write(int fd, const void *data, size_t size) {
  BEGIN(fd, 0);
  enum Kind how = size ? decide(WRITE, path) : NONE;
  ssize_t result = how == ERROR ? -1 : REAL(write)(fd, data, how ? (size + 1) / 2 : size);
  if (how && kind == KILL) die(path);
  if (result > 0 && within(path))
    record(WRITE, path, 0, lseek(fd, 0, SEEK_CUR) - result, data, result);
  END(result);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  ssize_t written = 0;
  for (int i = 0; i < count; i++) {
    ssize_t each = write(fd, parts[i].iov_base, parts[i].iov_len);
    if (each < 0) return written ? written : -1;
    written += each;
    if ((size_t)each < parts[i].iov_len) break;
  }
  return written;
}

static ssize_t write_at(int fd, const void *data, size_t size, off_t offset) {
  BEGIN(fd, 0);
  enum Kind how = size ? decide(WRITE, path) : NONE;
  ssize_t result =
      how == ERROR ? -1 : REAL(pwrite)(fd, data, how ? (size + 1) / 2 : size, offset);
  if (how && kind == KILL) die(path);
  if (result > 0 && within(path)) record(WRITE, path, 0, offset, data, result);
  END(result);
}
ssize_t pwrite(int fd, const void *d, size_t n, off_t o) { return write_at(fd, d, n, o); }
ssize_t pwrite64(int fd, const void *d, size_t n, off64_t o) { return write_at(fd, d, n, o); }

size_t fwrite(const void *data, size_t size, size_t count, FILE *file) {
  BEGIN(fileno(file), 0);
  enum Kind how = size && count ? decide(WRITE, path) : NONE;
  if (how == SHORT) errno = ENOSPC;
  size_t result = how == ERROR ? 0 : REAL(fwrite)(data, size, how ? count / 2 : count, file);
  if (how && kind == KILL) REAL(fflush)(file), die(path);
  if (result && within(path))
    record(WRITE, path, 0, ftello(file) - size * result, data, size * result);
  END(result);
}

int fflush(FILE *file) {
  if (!file) return REAL(fflush)(file);
  BEGIN(fileno(file), 0);
  int result = decide(FLUSH, path) ? EOF : REAL(fflush)(file);
  END(result);
}

int fclose(FILE *file) {
  BEGIN(fileno(file), 0);
  enum Kind how = root_length && (fcntl(fileno(file), F_GETFL) & O_ACCMODE) != O_RDONLY
                      ? decide(FLUSH, path)
                      : NONE;
  int result = REAL(fclose)(file);
  if (how) errno = failing_errno, result = EOF;
  END(result);
}

#define SYNCS(function)                                       \
  int function(int fd) {                                      \
    BEGIN(fd, 0);                                             \
    int result = decide(SYNC, path) ? -1 : REAL(function)(fd); \
    if (!result && within(path)) record(SYNC, path, 0, 0, 0, 0); \
    END(result);                                              \
  }
SYNCS(fsync)
SYNCS(fdatasync)

#define TRUNCATES(function, type)                                          \
  int function(int fd, type size) {                                        \
    BEGIN(fd, 0);                                                          \
    int result = decide(TRUNCATE, path) ? -1 : REAL(function)(fd, size);   \
    if (!result && within(path)) record(TRUNCATE, path, 0, size, 0, 0);    \
    END(result);                                                           \
  }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

/* A change of one name. */
#define NAMES(function, change, at, call, ...)            \
  int function(__VA_ARGS__) {                             \
    BEGIN(at, name);                                      \
    int result = decide(change, path) ? -1 : REAL(function) call; \
    if (!result && within(path)) record(change, path, 0, 0, 0, 0); \
    END(result);                                          \
  }
NAMES(unlink, UNLINK, AT_FDCWD, (name), const char *name)
NAMES(remove, UNLINK, AT_FDCWD, (name), const char *name)
NAMES(rmdir, RMDIR, AT_FDCWD, (name), const char *name)
NAMES(mkdir, MKDIR, AT_FDCWD, (name, mode), const char *name, mode_t mode)
NAMES(mkdirat, MKDIR, fd, (fd, name, mode), int fd, const char *name, mode_t mode)
NAMES(unlinkat, flags & AT_REMOVEDIR ? RMDIR : UNLINK, fd, (fd, name, flags), int fd,
      const char *name, int flags)

#define RENAMES(function, call, from_at, to_at, ...)                  \
  int function(__VA_ARGS__) {                                         \
    BEGIN(from_at, name);                                             \
    char other[PATH_MAX];                                             \
    const char *target = resolve(to_at, to, other);                   \
    int result = decide(RENAME, path) ? -1 : REAL(function) call;     \
    if (!result && within(path)) record(RENAME, path, target, 0, 0, 0); \
    END(result);                                                      \
  }
RENAMES(rename, (name, to), AT_FDCWD, AT_FDCWD, const char *name, const char *to)
RENAMES(renameat, (from, name, onto, to), from, onto, int from, const char *name, int onto,
        const char *to)
