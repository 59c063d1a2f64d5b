/* usage.h — what `pkb-worker --help` prints. */
#pragma once

extern const char worker_usage[];
