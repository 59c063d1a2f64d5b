#include "common/log.h"

#include "common/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static enum log_level level_shown = LOG_INFO;

void log_set_level(enum log_level level)
{
    level_shown = level;
}

/* Copies `from` with every byte that is not printable ASCII as \xHH. */
static int escape(char *to, int size, const char *from)
{
    static const char digits[] = "0123456789abcdef";
    int used = 0;

    for (; *from != 0 && used + 5 < size; from++) {
        unsigned char byte = (unsigned char)*from;
        if (byte >= ' ' && byte <= '~') {
            to[used++] = (char)byte;
            continue;
        }
        to[used++] = '\\';
        to[used++] = 'x';
        to[used++] = digits[byte >> 4];
        to[used++] = digits[byte & 15];
    }
    return used;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    char pairs[LOG_LINE_MAX];
    char line[LOG_LINE_MAX];
    va_list args;

    if (level > level_shown) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(pairs, sizeof pairs, format, args);
    va_end(args);

    int64_t now_ms = clock_wall_ms();
    time_t seconds = now_ms / 1000;
    struct tm utc = {0};
    gmtime_r(&seconds, &utc);
    size_t used = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &utc);
    used += (size_t)snprintf(line + used, sizeof line - used, ".%03dZ %s %.100s ",
                             (int)(now_ms % 1000), names[level], event);
    used += (size_t)escape(line + used, (int)(sizeof line - used - 1), pairs);
    while (line[used - 1] == ' ') {
        used--;
    }
    line[used++] = '\n';

    /* One write, so that lines of several processes do not mix. Nobody to tell if it fails. */
    ssize_t written = write(STDERR_FILENO, line, used);
    (void)written;
}
