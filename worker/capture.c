#include "worker/capture.h"

#include "common/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { NOTE_MAX_BYTES = 80 };

enum status capture_init(struct capture *capture, int *write_end, struct error *err)
{
    int ends[2] = {-1, -1};

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_set(err, ERR_IO, "cannot make a pipe: %m");
    }
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
        close(ends[0]);
        close(ends[1]);
        return error_set(err, ERR_IO, "cannot set up a pipe: %m");
    }
    *capture = (struct capture){.fd = ends[0]};
    *write_end = ends[1];
    return OK;
}

void capture_release(struct capture *capture)
{
    if (capture->fd >= 0) {
        close(capture->fd);
    }
    buffer_release(&capture->kept);
    *capture = (struct capture){.fd = -1};
}

bool capture_read(struct capture *capture)
{
    char chunk[16384];

    /* A bound on one turn, so that a program that writes without end does not hold the loop. */
    for (int turn = 0; turn < 64; turn++) {
        ssize_t size = read(capture->fd, chunk, sizeof chunk);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return true;
        }
        if (size <= 0) {
            return false;
        }
        size_t room = CAPTURE_KEPT_BYTES - capture->kept.size_bytes;
        buffer_append(&capture->kept, chunk, (size_t)size < room ? (size_t)size : room);
        capture->seen_bytes += (uint64_t)size;
    }
    return true;
}

bool capture_is_too_long(const struct capture *capture)
{
    return capture->seen_bytes > CAPTURE_MAX_BYTES;
}

/* The bytes of the character at `text`, or 0 where it has to be escaped. */
static size_t printable_bytes(const char *text, size_t size_bytes)
{
    unsigned char first = (unsigned char)text[0];

    if (first < 0x80) {
        return first == '\n' || first == '\t' || (first >= ' ' && first != 0x7f) ? 1 : 0;
    }
    size_t length = utf8_length(text, size_bytes);
    /* U+0080 to U+009F are control characters too. */
    return first == 0xc2 && length == 2 && (unsigned char)text[1] < 0xa0 ? 0 : length;
}

void capture_write(const struct capture *capture, struct buffer *text, size_t size_max)
{
    const char *from = capture->kept.data;
    size_t left = capture->kept.size_bytes;
    size_t end = text->size_bytes + (size_max > NOTE_MAX_BYTES ? size_max - NOTE_MAX_BYTES : 0);

    while (left > 0 && text->size_bytes + 4 <= end) {
        size_t length = printable_bytes(from, left);
        if (length > 0) {
            buffer_append(text, from, length);
        } else {
            buffer_printf(text, "\\x%02x", (unsigned)(unsigned char)*from);
            length = 1;
        }
        from += length;
        left -= length;
    }
    uint64_t lost = capture->seen_bytes - capture->kept.size_bytes + left;
    if (lost > 0 && size_max > NOTE_MAX_BYTES) {
        buffer_printf(text, "\n[%llu more bytes of output were not kept]\n",
                      (unsigned long long)lost);
    }
}
