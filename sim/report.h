/*
 * report.h — what simd tells the worker: one result per line on the report's fd, as each thing
 * happens, and at the end one with findings and traffic.
 */
#pragma once

#include "common/result.h"

struct client;
struct machine;

/* A kernel's fault. */
void report_fault(struct client *client, const struct fault *fault);
/* A fault of a copy or another call. */
void report_fault_call(struct client *client, const char *kind, const char *message);
/* A call that is not simulated, or what in `kernel` is not (NULL: it is a call); each only once, at
 * most MACHINE_REFUSED_MAX of them. */
void report_not_simulable(struct client *client, const char *what, const char *kernel);
/* A deadlock or the fuel's end (`reason` then says which), with where each rank stands. */
void report_stuck(struct machine *machine, enum verdict verdict, const char *reason);

/* For the last line. */
void report_finding(struct client *client, const char *kind, const char *message);
void report_last(struct machine *machine);
