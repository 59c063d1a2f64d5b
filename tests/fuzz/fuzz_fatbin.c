/* fuzz_fatbin.c — the images of a library that a hostile build made. */
#include "sim/code.h"
#include "tests/fuzz/fuzz.h"

void fuzz_fatbin(const uint8_t *data, size_t size_bytes)
{
    struct image_set set = {0};
    struct error err = {0};

    if (image_set_read(&set, data, size_bytes, &err) == OK) {
        image_set_release(&set);
    }
}
