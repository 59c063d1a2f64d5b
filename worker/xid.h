/*
 * xid.h — the errors of NVIDIA's driver: how the kernel's log and the driver's events tell of them,
 * whose fault each is, and what follows.
 *
 * The table is data, and docs/nodes.md shows it; a number that is not in it is XID_OF_UNKNOWN.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum xid_fault { XID_OF_SUBMISSION, XID_OF_NODE, XID_OF_HARDWARE, XID_OF_UNKNOWN, XID_FAULTS };

/* From the mildest on. */
enum xid_action {
    XID_CONTINUE, /* the job's verdict stands */
    XID_RETRY,    /* what the GPU computed is not to be trusted: the job is tried again */
    XID_FINISH,   /* the verdict stands; then the node takes no more until the GPU was reset */
    XID_RESET,    /* as XID_RETRY, and the node takes no more until the GPU was reset */
    XID_ACTIONS,
};

struct xid_cause {
    int number; /* 0: of all that are not in the table */
    enum xid_fault fault;
    enum xid_action action;
    const char *text;
};

enum { PCI_TEXT_MAX = 32, XID_MAX = 9999 };

struct pci_address {
    unsigned domain, bus, device;
};

struct xid {
    struct pci_address gpu;
    int number;
};

const char *xid_fault_name(enum xid_fault fault);    /* "submission", "node", ... */
const char *xid_action_name(enum xid_action action); /* "continue", "retry", ... */

/* What is known about a number; never NULL. */
const struct xid_cause *xid_cause(int number);
/* The table, for those who show it. */
const struct xid_cause *xid_table(size_t *count);

/* "0000:1b:00", with or without a function at the end and with a domain of 4 or 8 digits; the rest
 * of the text starts at *end. */
bool pci_address_read(struct pci_address *address, const char *text, const char **end);
void pci_address_write(const struct pci_address *address, char text[static PCI_TEXT_MAX]);
bool pci_address_equals(const struct pci_address *address, const struct pci_address *other);

/* Reads the text of one message of the kernel: "NVRM: Xid (PCI:0000:1b:00): 79, ...". False: it is
 * about something else. */
bool xid_read(struct xid *xid, const char *message);
/* The same from a whole record, "PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT", and only where it is
 * the kernel's own: programs can write there, too. */
bool xid_read_record(struct xid *xid, const char *record);
