#include "worker/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIELDS_BEFORE_TIMES = 11 }; /* from the state to utime */

int64_t process_cpu_ms(pid_t pid)
{
    char path[64];
    char text[1024] = "";

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t size = read(fd, text, sizeof text - 1);
    close(fd);
    /* "pid (name) state ...": a name may hold anything, brackets too. */
    char *at = size > 0 ? strrchr(text, ')') : NULL;
    for (int field = 0; at != NULL && field <= FIELDS_BEFORE_TIMES; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at == NULL) {
        return 0;
    }
    long long user = strtoll(at, &at, 10);
    long long system = strtoll(at, NULL, 10);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}
