/* batches_api.h — /v1/batches: batches are sent, looked at, cancelled, and reported on. */
#pragma once

#include "server/calls.h"

enum status batches_post(struct call *call, struct error *err); /* in batch_upload.c */
enum status batches_list(struct call *call, struct error *err);
enum status batches_get(struct call *call, struct error *err);
enum status batches_lines(struct call *call, struct error *err);
enum status batches_report(struct call *call, struct error *err);
enum status batches_cancel(struct call *call, struct error *err);
