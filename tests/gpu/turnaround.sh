#!/bin/sh
# How long a submitter waits, and for how long a job holds the GPU: a real server and worker, over
# HTTP, one rank.
#
#   sh tests/gpu/turnaround.sh [DEVICE]
#
# DEVICE is cuda, or sim, where nothing is timed and no limit holds. Prints rows: ok or FAILED,
# what, figures; lines with # are tables. SLOTS=N: jobs that the worker leases at a time (on GPUs 3:
# one runs, two are built or wait). Environment: JOBS=N (60), SINGLES=N (5), WORKER_OPTIONS.
#
# single  one job at a time: all check cases, bench and its timing; from submit to verdict, less its
#         build, 2.5 s at most, and 2 s of the GPU (from the start of the first process that uses
#         it to the end of the last)
# mixed   60 jobs of the kinds that agents send (a quarter does not compile, a fifth is wrong, some
#         crash or hang), submitted at once: jobs an hour, and the share of the time that the GPU is
#         held
set -eu
cd "$(dirname "$0")/../.."
. tests/service.sh
device=${1:-cuda}
jobs=${JOBS:-60}
slots=3
[ "$device" != sim ] || slots=1
slots=${SLOTS:-$slots}
trap 'service_stop' EXIT
trap 'exit 130' INT TERM

# file, task, verdict, share of 60
kinds='tests/fixtures/allreduce_loads.cu allreduce accepted 6
tests/fixtures/allgather_copy.cu allgather accepted 4
tests/fixtures/alltoall_loads.cu alltoall accepted 2
tasks/001_allreduce/baseline.cu allreduce accepted 2
tests/fixtures/syntax_error.cu allreduce compile_error 10
tests/fixtures/wrong_signature.cu allreduce link_error 3
tests/fixtures/undefined_symbol.cu allreduce link_error 5
tests/fixtures/zeros.cu allreduce wrong_answer 12
tests/fixtures/unwritten.cu allreduce contract_violation 4
tests/fixtures/trap.cu allreduce runtime_error 4
tests/fixtures/run_code.cu allreduce runtime_error 3
tests/fixtures/setup_code.cu allreduce runtime_error 2
tests/fixtures/endless_kernel.cu allreduce timeout 3'

now_ms()
{
    echo $(($(date +%s%N) / 1000000))
}

# Another source of the same kind: nothing of it was built before.
variant()
{
    { cat "$1" && echo "// $2"; } >"$dir/$2.cu"
}

# What a job's JSON says of its result: verdict, build, run.
figures_of()
{
    jq -rs '[.. | objects | select(has("verdict") and has("build_ms"))] | last |
        [.verdict, .build_ms, .run_ms, .builder // "-", .stage // "-", .message // "-"] |
        map(tostring) | join(" ")' "$1"
}

start()
{
    service_start
    # shellcheck disable=SC2086 # a list of options
    "$BUILD/bin/pkb-worker" --server "$url" --token-file "$dir/worker.token" --name node1 \
        --device "$device" --slots "$slots" --work-dir "$dir" --stall-ms 3000 --fuel 200000000 \
        ${WORKER_OPTIONS:-} 2>"$dir/worker.log" &
    worker=$!
}

# One job, from submit to verdict: its milliseconds go to $dir/single.
single()
{
    variant tests/fixtures/allreduce_loads.cu "single$1"
    begin=$(now_ms)
    pkb submit "$dir/single$1.cu" --task allreduce --world 1 --device "$device" --wait --json \
        >"$dir/single$1.json" 2>"$dir/submit.log" || true
    end=$(now_ms)
    figures_of "$dir/single$1.json" >"$dir/figures"
    read -r verdict build run builder stage message <"$dir/figures"
    echo "# single $1: $verdict, $((end - begin)) ms, build $build ms by $builder, GPU $run ms" \
        "($stage: $message)"
    echo "$verdict $((end - begin - build)) $run" >>"$dir/single"
}

median_of()
{
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

singles()
{
    single 0 # its baseline is timed now, and known then
    : >"$dir/single"
    number=0
    while [ $number -lt "${SINGLES:-5}" ]; do
        number=$((number + 1))
        single $number
    done
    beyond=$(cut -d ' ' -f 2 "$dir/single" | median_of)
    held=$(cut -d ' ' -f 3 "$dir/single" | median_of)
    word=FAILED
    if ! grep -qv '^accepted ' "$dir/single" &&
        { [ "$device" = sim ] || { [ "$beyond" -le 2500 ] && [ "$held" -le 2000 ]; }; }; then
        word=ok
    fi
    echo "$word single submit to verdict: the build + $beyond ms; GPU held $held ms" \
        "(medians of $number)"
}

# Each kind in turn, so that they come mixed: lines of file, task, verdict.
list_jobs()
{
    echo "$kinds" | awk -v jobs="$jobs" '
        { what[NR] = $1 " " $2 " " $3; share[NR] = $4; sum += $4 }
        END {
            while (done < jobs) {
                best = 1
                for (i = 1; i <= NR; i++) {
                    owed[i] += share[i] / sum
                    if (owed[i] > owed[best]) best = i
                }
                owed[best] -= 1
                print what[best]
                done++
            }
        }'
}

mixed()
{
    # Baselines are timed once a day, not in this hour.
    list_jobs >"$dir/list"
    grep ' accepted$' "$dir/list" | sort -u >"$dir/warm"
    while read -r file task verdict; do
        variant "$file" warm
        pkb submit "$dir/warm.cu" --task "$task" --world 1 --device "$device" --wait --json \
            >"$dir/warm.json" 2>"$dir/submit.log" </dev/null || true
    done <"$dir/warm"
    number=0
    begin=$(now_ms)
    while read -r file task verdict; do
        number=$((number + 1))
        variant "$file" "mixed$number"
        pkb submit "$dir/mixed$number.cu" --task "$task" --world 1 --device "$device" --json \
            >"$dir/mixed$number.json" 2>"$dir/submit.log" </dev/null || service_fail submit
    done <"$dir/list"
    sent=$(now_ms)
    number=0
    while read -r file task verdict; do
        number=$((number + 1))
        id=$(jq -r '[.. | objects | .id? // empty] | map(select(startswith("j"))) | last' \
            "$dir/mixed$number.json")
        pkb status "$id" --wait --json >"$dir/mixed$number.json" 2>"$dir/submit.log" </dev/null ||
            true
        echo "$(figures_of "$dir/mixed$number.json" | cut -d ' ' -f 1-3) $verdict $file" \
            >>"$dir/mixed"
    done <"$dir/list"
    end=$(now_ms)
    awk -v all=$((end - begin)) -v sent=$((sent - begin)) -v device="$device" '
        { count[$4, $1 == $4]++; build += $2; held += $3; kinds[$4]; jobs++
          builds[$4] += $2; runs[$4] += $3; of[$4]++
          if ($1 != $4) { wrong++; print "# " $5 ": " $1 ", not " $4 } }
        END {
            print "# verdict              jobs  build s each  GPU s each"
            for (kind in kinds)
                printf "# %-20s %4d %13.2f %11.2f\n", kind, of[kind],
                    builds[kind] / of[kind] / 1000, runs[kind] / of[kind] / 1000
            rate = jobs / all * 3600000
            printf "%s mixed %d jobs in %.1f s (submitted in %.1f s): %d/h, GPU held %.0f %%, " \
                "builds %.0f %%, %d wrong verdicts\n", \
                wrong || (device != "sim" && rate < 1000) ? "FAILED" : "ok", jobs, all / 1000,
                sent / 1000, rate, held / all * 100, build / all * 100, wrong
        }' "$dir/mixed"
}

start
singles
mixed
