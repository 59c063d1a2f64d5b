/*
 * init.h — what the keeper of a box and pkb-init, the first process inside a sandbox, say to each
 * other over a socket of packets.
 *
 *     pkb-init CONTROL filtered|unfiltered {OUTPUT DIRECTORY FDS fd... ENV name=value...
 *              ARGUMENTS argument...}...
 *
 * pkb-init starts all the programs that its command line describes, each with the descriptors that
 * it names and no others; FDS, ENV and ARGUMENTS are counts, a DIRECTORY of "" is where it is. It
 * tells of each start and end, and kills a program when it gets its number. A start is told by the
 * program's own process, so that the kernel says with it which process that is outside. pkb-init
 * ends when the socket does, and with it all that is in the sandbox.
 */
#pragma once

/* INIT_OPENED comes first, from pkb-init itself. */
enum init_event_kind { INIT_OPENED, INIT_STARTED, INIT_ENDED };

struct init_event {
    int kind, program, wait_status;
};

enum { INIT_PROGRAMS_MAX = 12, INIT_EXIT_NOT_STARTED = 127 };
