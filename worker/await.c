#include "worker/await.h"

#include <dlfcn.h>
#include <poll.h>
#include <stddef.h>

void await_message(int judge)
{
    static void (*await)(int fd);
    struct pollfd watched = {.fd = judge, .events = POLLIN};

    if (await == NULL) {
        *(void **)&await = dlsym(RTLD_DEFAULT, "pkb_sim_await");
    }
    if (await != NULL) {
        await(judge);
    } else {
        (void)poll(&watched, 1, -1);
    }
}
