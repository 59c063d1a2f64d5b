/*
 * layers.h — the layers of a sandbox, by name.
 */
#pragma once

#include "common/error.h"

#include <stddef.h>

enum layer {
    LAYER_UID,         /* build, ranks, simulator and judge of each slot are different users */
    LAYER_NAMESPACES,  /* bubblewrap works at all */
    LAYER_USERNS,      /* no further user namespaces inside */
    LAYER_MOUNT,       /* only the files of the policy, read-only */
    LAYER_PID,         /* no process outside is seen */
    LAYER_NET,         /* no network but an own loopback */
    LAYER_IPC,         /* no System V or POSIX objects of others */
    LAYER_SECCOMP,     /* the filters of system calls */
    LAYER_CGROUP,      /* limits of memory and processes together, and the kill */
    LAYER_PRIVILEGES,  /* no capability, and none to be had */
    LAYER_ENVIRONMENT, /* empty, of the first process too */
    LAYER_COLLECTOR,   /* openat2: no link leads out of a directory that is read */
    LAYERS,
};

const char *layer_name(enum layer layer);
/* -1: none of these `length` bytes. */
int layer_find(const char *name, size_t length);
/* Sets the bits of "name,name,...". ERR_INVALID: an unknown name; the message lists all. */
enum status layers_read(unsigned *layers, const char *text, struct error *err);
