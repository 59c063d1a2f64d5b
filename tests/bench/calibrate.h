/* calibrate.h — the loop of bench.cal. Its text and flags stay as they are, or figures of before
 * say nothing any more. */
#pragma once

#include <stdint.h>

/* Runs the loop; the result is of no meaning, but must be used. */
float calibrate(uint64_t iterations);
