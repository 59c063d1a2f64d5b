#!/bin/sh
# only: all
# timeout: 900
# Replays the corpus of tests/fuzz in a program that the sanitizers of addresses, leaks and
# undefined behaviour watch: test_fuzz, built beside the plain build. After a first build that takes
# seconds.
set -eu
cd "$(dirname "$0")/../.."
unset MAKEFLAGS MAKEOVERRIDES MFLAGS
program=build-address/tests/test_fuzz
log=$(mktemp)
trap 'rm -f "$log"' EXIT

if ! nice make -j 2 --no-print-directory SAN=address "$program" >"$log" 2>&1; then
    echo "not ok - the sanitizers' build"
    tail -n 40 "$log" | sed 's/^/# /'
    exit 1
fi
for symbol in __asan_init __ubsan_handle; do
    if ! nm "$program" | grep -q "$symbol"; then
        echo "not ok - $program has no $symbol"
        exit 1
    fi
done
# Freed memory that is kept to find its use counts as memory, which the test limits.
ASAN_OPTIONS=quarantine_size_mb=32 CMOCKA_MESSAGE_OUTPUT=TAP nice "$program"
