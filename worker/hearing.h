/*
 * hearing.h — what the judge and the simulator say about a job, taken in the order of cause and
 * effect.
 *
 * They speak on two descriptors, and a loop may show either one first. The simulator tells of a
 * fault or a deadlock before the judge can see what came of it, so whatever the judge reports, the
 * simulator's lines that are there are read before. hearing_init, then one of the others whenever a
 * descriptor can be read, hearing_release. What is heard goes to the evidence, which borrows it.
 */
#pragma once

#include "common/buffer.h"
#include "worker/channel.h"
#include "worker/verdict.h"

enum { HEARING_REPORT_MAX_BYTES = 8 << 20 }; /* of the simulator's lines */

struct hearing {
    int judge, report; /* both non-blocking; -1: nobody is there */
    bool judge_ended, report_ended;
    bool is_decided;   /* nothing that is said from now on is a cause; the owner may set it, too */
    unsigned progress; /* how often the judge said what is being done */
    struct evidence *evidence;
    struct result judge_report, device, device_end;
    struct buffer lines;
    struct message *message;
};

void hearing_init(struct hearing *hearing, int judge, int report, struct evidence *evidence);
/* Takes in what the judge has said. */
void hearing_judge(struct hearing *hearing);
/* Takes in what the simulator has said. */
void hearing_report(struct hearing *hearing);
/* Whether the judge named a rank that hung up, and that rank's end is not known yet. */
bool hearing_awaits_an_end(const struct hearing *hearing);
void hearing_release(struct hearing *hearing);
