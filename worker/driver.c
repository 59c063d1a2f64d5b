#include "worker/driver.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool has_driver(const char *directory, size_t length, char found[static PATH_MAX])
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)length, directory);

    if (length == 0 || directory[0] != '/' || size < 0 || size >= PATH_MAX ||
        access(path, R_OK) != 0) {
        return false;
    }
    (void)snprintf(found, PATH_MAX, "%.*s", (int)length, directory);
    return true;
}

const char *driver_directory(void)
{
    static const char *const places[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                         "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"};
    static char found[PATH_MAX];
    const char *paths = getenv("LD_LIBRARY_PATH");

    while (paths != NULL && *paths != 0) {
        size_t length = strcspn(paths, ":");
        if (has_driver(paths, length, found)) {
            return found;
        }
        paths += length + (paths[length] == ':');
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (has_driver(places[i], strlen(places[i]), found)) {
            return found;
        }
    }
    return NULL;
}
