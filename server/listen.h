/* listen.h — the socket that the server listens on, and how many connections it can have. */
#pragma once

#include "common/error.h"

/* Opens a listening socket at `address`, "127.0.0.1:8750" or "[::1]:0", and says its real port.
 * ERR_INVALID: not an address, or one that other machines can reach. */
enum status listen_open(const char *address, int *listener, int *port, struct error *err);

/* Raises the limit of open files as far as allowed, and returns how many may be connections. */
unsigned listen_connections_max(void);
