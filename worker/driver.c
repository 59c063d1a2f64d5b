#include "worker/driver.h"

#include <ctype.h>
#include <limits.h>
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

bool driver_is_version(const char *text)
{
    bool is_after_digit = false;

    for (; *text != 0; text++) {
        bool is_digit = isdigit((unsigned char)*text) != 0;
        if (!is_digit && !(*text == '.' && is_after_digit)) {
            return false;
        }
        is_after_digit = is_digit;
    }
    return is_after_digit;
}

int driver_compare(const char *version, const char *other)
{
    while (*version != 0 || *other != 0) {
        char *version_end = NULL;
        char *other_end = NULL;
        long long number = strtoll(version, &version_end, 10);
        long long other_number = strtoll(other, &other_end, 10);
        if (number != other_number) {
            return number < other_number ? -1 : 1;
        }
        version = version_end + (*version_end != 0);
        other = other_end + (*other_end != 0);
    }
    return 0;
}

enum status driver_demand(const char *what, const char *found, const char *needed,
                          struct error *err)
{
    if (!driver_is_version(found)) {
        return error_field(err, ERR_UNAVAILABLE, "driver",
                           "which %s this node has is not known, and %s is needed or newer", what,
                           needed);
    }
    if (driver_compare(found, needed) < 0) {
        return error_field(err, ERR_UNAVAILABLE, "driver",
                           "this node's %s is %s, and %s is needed or newer", what, found, needed);
    }
    return OK;
}
