#!/bin/sh
# The runner counts what its programs say, and takes silence, crashes and lost tests for failures.
set -eu
cd "$(dirname "$0")/../.."
BUILD=$(mktemp -d)
export BUILD
unset SKIPS JOBS
trap 'rm -rf "$BUILD"' EXIT
mkdir "$BUILD/tests"
number=0

# counts TEXT EXPECTED: the program read from stdin gives these counts.
counts()
{
    number=$((number + 1))
    { echo '#!/bin/sh' && cat; } >"$BUILD/tests/test_fake"
    chmod +x "$BUILD/tests/test_fake"
    got=$(sh tests/run.sh test_fake | tail -n 1)
    if [ "$got" = "$2" ]; then
        echo "ok $number - $1"
    else
        echo "not ok $number - $1: $got"
    fi
}

counts "passed tests are counted" "2 passed, 0 failed, 0 skipped" <<'END'
echo 1..2
echo ok 1 - one
echo ok 2 - two
END
counts "a failed test is counted" "1 passed, 1 failed, 0 skipped" <<'END'
echo ok 1 - one
echo not ok 2 - two
exit 1
END
counts "a skip for want of a GPU is counted" "1 passed, 0 failed, 1 skipped" <<'END'
echo ok 1 - one
echo "ok 2 - two # SKIP no GPU"
END
counts "any other skip is a failure" "1 passed, 1 failed, 0 skipped" <<'END'
echo ok 1 - one
echo "ok 2 - two # SKIP it is late"
END
export SKIPS=forbidden
counts "where skips are forbidden, each is a failure" "1 passed, 1 failed, 0 skipped" <<'END'
echo ok 1 - one
echo "ok 2 - two # SKIP no GPU"
END
unset SKIPS
counts "a planned test that did not run is a failure" "1 passed, 2 failed, 0 skipped" <<'END'
echo 1..3
echo ok 1 - one
END
counts "a program that says nothing is a failure" "0 passed, 1 failed, 0 skipped" <<'END'
exit 0
END
counts "a program that dies after its tests is a failure" "1 passed, 1 failed, 0 skipped" <<'END'
echo ok 1 - one
kill -SEGV $$
END
echo "1..$number"
