#!/bin/sh
# Writes C source that holds the given files: SQL migrations in the order of their numbers, and the
# API's description. Declared in server/schema.h.
set -eu

bytes() {
    od -An -v -tx1 "$1" | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g'
}

echo '#include "server/schema.h"'
count=0
for file in "$@"; do
    case $file in
    *.sql)
        count=$((count + 1))
        number=$(basename "$file" | sed 's/_.*//; s/^0*//')
        if [ "$number" != "$count" ]; then
            echo "embed.sh: '$file' should be number $count" >&2
            exit 1
        fi
        echo "static const char migration_$count[] = {"
        bytes "$file"
        echo '0};'
        ;;
    *openapi.yaml)
        echo 'const char schema_openapi[] = {'
        bytes "$file"
        echo '0};'
        ;;
    *)
        echo "embed.sh: what is '$file'?" >&2
        exit 1
        ;;
    esac
done
echo "const int schema_migration_count = $count;"
echo 'const char *const schema_migrations[] = {'
i=1
while [ "$i" -le "$count" ]; do
    echo "migration_$i,"
    i=$((i + 1))
done
echo '};'
