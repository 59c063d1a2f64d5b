#include "worker/slot.h"

#include "common/mem.h"
#include "worker/sandbox.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

char *slot_name(const struct slot_lease *slot, uid_t uid_base)
{
    return xasprintf("pkb-slot-%u-%d", (unsigned)uid_base, slot->number);
}

enum status slot_take(struct slot_lease *slot, uid_t uid_base, struct error *err)
{
    int lock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (lock < 0) {
        return error_set(err, ERR_IO, "cannot make a socket: %m");
    }
    for (int number = 0; number < SANDBOX_SLOTS_MAX; number++) {
        /* A name without a file, which one socket at a time can have. */
        struct sockaddr_un name = {.sun_family = AF_UNIX};
        struct slot_lease taken = {.number = number, .lock = lock};
        char *text = slot_name(&taken, uid_base);
        size_t length = strlen(text);
        memcpy(name.sun_path + 1, text, length);
        free(text);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
        if (bind(lock, (struct sockaddr *)&name, size) == 0) {
            *slot = taken;
            return OK;
        }
        if (errno != EADDRINUSE) {
            close(lock);
            return error_set(err, ERR_IO, "cannot take a slot: %m");
        }
    }
    close(lock);
    return error_set(err, ERR_LIMIT, "all %d slots of this machine are taken", SANDBOX_SLOTS_MAX);
}

void slot_release(struct slot_lease *slot)
{
    if (slot->lock >= 0) {
        close(slot->lock);
    }
    slot->lock = -1;
}
