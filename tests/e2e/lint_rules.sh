#!/bin/sh
# Every lint rule finds its fault in a tiny tree that is right but for that.
set -eu
cd "$(dirname "$0")/../.."
lint=$(pwd)/tests/lint.sh
style=$(pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
unset BUILD
number=0

# Starts again with a tree that has nothing to find.
clean_tree()
{
    rm -rf "$tree"
    mkdir -p "$tree/common" "$tree/server" "$tree/tasks/001_one" "$tree/tests"
    cp "$style/.clang-format" "$style/.clang-tidy" "$tree"
    printf '# One\n' >"$tree/tasks/001_one/README.md"
    cat >"$tree/common/thing.h" <<'END'
/* thing.h: a thing. */
#pragma once

int thing_count(int limit);
END
    cat >"$tree/common/thing.c" <<'END'
#include "common/thing.h"

#include <stdlib.h>

int thing_count(int limit)
{
    return abs(limit);
}
END
    cat >"$tree/tasks/001_one/task.c" <<'END'
#include "common/thing.h"
END
}

report()
{
    number=$((number + 1))
    echo "$1 $number - $2"
}

# finds TEXT RULE FILE PATTERN < the file: the rule must say PATTERN about FILE.
finds()
{
    clean_tree
    mkdir -p "$tree/$(dirname "$3")"
    cat >"$tree/$3"
    if sh "$lint" --root "$tree" "$2" >"$tree/out" 2>&1; then
        report "not ok" "$1: not found"
    elif grep -q "^${3%/*}.*$4" "$tree/out"; then
        report ok "$1"
    else
        report "not ok" "$1: found something else"
        sed 's/^/# /' "$tree/out"
    fi
}

repeat()
{
    awk -v text="$1" -v count="$2" 'BEGIN { while (count-- > 0) { print text } }'
}

clean_tree
if sh "$lint" --root "$tree" >"$tree/out" 2>&1; then
    report ok "a tree that is right has no findings"
else
    report "not ok" "a tree that is right has no findings"
    sed 's/^/# /' "$tree/out"
fi

finds "a function of 71 lines" text common/long.c "71 lines in a function" <<END
void long_one(void)
{
$(repeat '    ;' 69)
}
END
finds "a file of 501 lines" text common/long.c "501 lines in a file" <<END
$(repeat '/* more */' 501)
END
finds "a line of 101 columns" text common/wide.c "101 columns" <<END
/* $(repeat x 95 | tr -d '\n') */
END
for name in strcpy strcat sprintf vsprintf gets strtok atoi system popen alloca rand; do
    finds "a call of $name" text common/call.c "banned function" <<END
void call(void)
{
    $name(0);
}
END
done
finds "a test that sleeps" text tests/test_nap.c "a test never sleeps" <<'END'
void nap(void)
{
    usleep(1);
}
END
finds "a typedef" text common/type.c "not typedef" <<'END'
typedef struct thing thing_t;
END
finds "common including server" text common/up.c "common/ may not include server/" <<'END'
#include "server/queue.h"
END
finds "server including worker" text server/across.c "server/ may not include worker/" <<'END'
#include "worker/build.h"
END
finds "worker including sim" text worker/across.c "worker/ may not include sim/" <<'END'
#include "sim/engine.h"
END
finds "an include without its folder" text server/near.c "folder/name.h" <<'END'
#include "queue.h"
END
finds "another's header first" text common/thing.c 'include "common/thing.h" first' <<'END'
#include <stdlib.h>

#include "common/thing.h"
END
while read -r header file owner; do
    finds "<$header> outside of $owner" text "$file" "belongs to" <<END
#include <$header>
END
done <<'END'
sqlite3.h client/list.c server
microhttpd.h server/queue.c server/http.c
uv.h server/main.c worker
jansson.h client/print.c common
curl/curl.h client/fetch.c common
cuda_runtime_api.h worker/agent.c judge,rank,symm
nccl.h worker/build.c judge,rank,symm
END
finds "a header that shows a library's types" text server/db.h "must not show" <<'END'
/* db.h: a database. */
#pragma once
#include <sqlite3.h>
END
finds "a header without pragma once" text common/bare.h "pragma once" <<'END'
/* bare.h: bare. */
END
finds "a header without a comment" text common/mute.h "opens with a comment" <<'END'
#pragma once
END
finds "a header that does not compile alone" headers common/needy.h "unknown type name" <<'END'
/* needy.h: needs another. */
#pragma once
size_t needy_size(void);
END
finds "a fourth file in a task's folder" tasks tasks/001_one/notes.txt "a task is task.c" <<'END'
notes
END
finds "a task without its statement" tasks tasks/002_two/task.c "is missing" <<'END'
END
finds "a task's folder without its number" tasks tasks/three/task.c "called NNN_name" <<'END'
END
finds "a path of one machine" names docs/where.md "a path of one machine" <<END
Look into /wor${number:+k}/main.
END
finds "an address that is not ours" names docs/where.md "an address" <<END
Get it from http://${number:+registry}.somewhere.net/simple.
END
finds "a shell script that does not parse" shell deploy/broken.sh "yntax error" <<'END'
#!/bin/sh
if true; then
END
finds "a format of its own" format common/ugly.c "clang-format" <<'END'
int   ugly( void );
END
finds "a null pointer that cppcheck sees" cppcheck common/null.c "nullPointer" <<'END'
int null(void)
{
    int *number = 0;
    return *number;
}
END
finds "an if without braces" tidy common/brace.c "braces" <<'END'
int brace(int a)
{
    if (a > 0)
        return 1;
    return 0;
}
END
finds "an else after a return" tidy common/else.c "else-after-return" <<'END'
int choose(int a)
{
    if (a > 0) {
        return 1;
    } else {
        return 0;
    }
}
END
finds "a result of fclose that nobody looks at" tidy common/lost.c "cert-err33-c" <<'END'
#include <stdio.h>

void lost(FILE *file)
{
    fclose(file);
}
END
finds "seven parameters" tidy common/seven.c "function-size" <<'END'
int seven(int a, int b, int c, int d, int e, int f, int g);
int seven(int a, int b, int c, int d, int e, int f, int g)
{
    return a + b + c + d + e + f + g;
}
END
finds "a use after free" tidy common/freed.c "clang-analyzer" <<'END'
#include <stdlib.h>

int freed(void)
{
    int *number = malloc(sizeof(*number));
    free(number);
    return *number;
}
END

echo "1..$number"
