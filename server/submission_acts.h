/* submission_acts.h — handlers: a source is read, published; a submission is disqualified, run
 * again. Each act is an event. */
#pragma once

#include "server/calls.h"

enum status submissions_source(struct call *call, struct error *err);
enum status submissions_disqualify(struct call *call, struct error *err);
enum status submissions_publish(struct call *call, struct error *err);
enum status jobs_rerun(struct call *call, struct error *err);
