#!/bin/sh
# timeout: 600
# With one seed the verdict, its evidence and the findings are the same bytes in every run, whatever
# else the machine does.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
dir=$(mktemp -d)
load=
trap 'kill $load 2>/dev/null || true; rm -rf "$dir"' EXIT
number=0
mkdir -m 700 "$dir/builds" # what is tested is the run: each source is built once

# What must not change: all but the times and the log of the compiler.
evaluate()
{
    "$BUILD/bin/pkb-worker" --once "tests/fixtures/$1.cu" --task "$2" --world "$3" --device sim \
        --schedules 1 --seed "${5:-7}" --builds "$dir/builds" </dev/null 2>>"$dir/log" |
        jq -S '{verdict, reason, message, stage, case, variant, rank, mismatch, waits, faults,
                findings, traffic, output_digest}' >"$4" || true
}

# A process that keeps a core busy, for a minute at most.
busy()
{
    timeout 60 sh -c 'while :; do :; done' &
    load="$load $!"
}

while read -r file task world verdict; do
    for run in 1 2 3 4 5; do
        if [ $run -eq 4 ]; then
            busy
            busy
        fi
        evaluate "$file" "$task" "$world" "$dir/$run"
    done
    # shellcheck disable=SC2086 # a list of processes
    kill $load 2>/dev/null || true
    load=
    number=$((number + 1))
    name="$file on $world ranks: $verdict, five times the same, twice of them under load"
    if [ "$(jq -r .verdict "$dir/1")" = "$verdict" ] && [ "$(sha256sum "$dir"/[1-5] |
        cut -d ' ' -f 1 | sort -u | wc -l)" -eq 1 ]; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        for run in 2 3 4 5; do
            diff "$dir/1" "$dir/$run" | head -n 40 | sed 's/^/# /' || true
        done
        tail -n 5 "$dir/log" | sed 's/^/# /'
    fi
done <<'END'
allreduce_loads allreduce 4 accepted
no_signal allreduce 4 deadlock
wrong_element allreduce 4 wrong_answer
missing_end_barrier allreduce 4 wrong_answer
END

# Prints the digest of what the submission computes from seed $4.
digest_of()
{
    evaluate "$1" "$2" "$3" "$dir/digest" "$4"
    jq -r '.output_digest // "none"' "$dir/digest"
}

# Both add in the same order, so that they compute the same bits.
number=$((number + 1))
name="the same outputs have the same digest, and those of another seed another"
one=$(digest_of allreduce_loads allreduce 2 7)
two=$(digest_of allreduce_stores allreduce 2 7)
other=$(digest_of allreduce_loads allreduce 2 8)
if [ "${#one}" -eq 16 ] && [ "$one" = "$two" ] && [ "$one" != "$other" ]; then
    echo "ok $number - $name"
else
    echo "not ok $number - $name"
    echo "# $one $two $other"
fi
echo "1..$number"
