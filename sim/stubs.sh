#!/bin/sh
# Writes C that defines every call which a real CUDA library exports and ours does not: each says
# that it is not simulated, and returns an error.
#
#     sh sim/stubs.sh REAL_LIBRARY REFUSING_FUNCTION OBJECT...
set -eu
export LC_ALL=C

real=$1 refuse=$2
shift 2
have=$(nm --defined-only "$@" | awk '$2 == "T" { print $3 }' | sort -u)

echo "/* Made by sim/stubs.sh. */"
echo "int $refuse(const char *name);"
echo '#define REFUSE(name) \'
echo '    int name(void); \'
echo "    __attribute__((visibility(\"default\"))) int name(void) { return $refuse(#name); }"
nm -D --defined-only "$real" |
    awk '$2 == "T" || $2 == "W" { sub(/@.*/, "", $3); print $3 }' |
    grep -E '^(cu|__cuda|nccl)' | sort -u |
    { printf '%s\n' "$have" | comm -13 - /dev/fd/3; } 3<&0 | sed 's/.*/REFUSE(&)/'
