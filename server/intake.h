/* intake.h — how a request becomes a submission and a queued job, alone or as a line of a batch. */
#pragma once

#include "server/calls.h"

struct intake {
    struct submission submission;
    struct job job;
};

/* Holds a request against what its task allows, and fills in what it leaves open. */
enum status intake_check(struct submission_request *request, struct error *err);

/* Stores what intake_check has passed, for the call's token; `batch_id` "": of no batch. */
enum status intake_store(struct call *call, const struct submission_request *request,
                         const char *batch_id, struct intake *made, struct error *err);
