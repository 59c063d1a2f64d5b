#!/bin/sh
# Prints how fast this is, a line for each figure: name, value, unit. The same goes to
# $BUILD/bench.json, with the processor and the date.
#
#   sh tests/bench/bench.sh            all
#   sh tests/bench/bench.sh NAME...    those only: bench.cal, sim.saxpy, e2e.overhead, ...
#   SAMPLE_MS=N                        CPU time of each of the five samples of sim.* (200)
#   SUBMISSIONS=N                      of e2e.overhead (9)
#   PAIRS=N                            of builds of each source for build.ratio (5)
#
# bench.cal     a fixed loop in C: divide by it to compare machines
# sim.NAME      thread-instructions a second of one core of the simulator, by CPU time
# sim.wmma512   a product of bf16 matrices of side 512, by CPU time
# sim.allreduce8   one-shot all-reduce of 1 M floats on 8 ranks, by CPU time
# build.ratio   wall time of a build by that of plain nvcc in the same kind of box, the median of
#               five sources; build.cpu_ratio the same of CPU time, disturbed less
# build.again   wall time of the build stage of a source that was built before
# e2e.build     wall time of the build stage of the demo's submission: nvcc in its box
# e2e.overhead  wall time from `pkb submit --wait` to its verdict, less the build stage: server,
#               worker, judge, four ranks and simulator; medians of submissions one by one
set -eu
cd "$(dirname "$0")/../.."
. tests/service.sh
figures=$(mktemp)
trap 'service_stop; rm -f "$figures"' EXIT
trap 'exit 130' INT TERM

kernels="saxpy copy128 bf16x2 bf16sum hash diverge reduce gemm scatter wmma512 allreduce8"

figure()
{
    printf '%-16s %10s %s\n' "$1" "$2" "$3"
    printf '%s %s %s\n' "$1" "$2" "$3" >>"$figures"
}

median()
{
    sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# Milliseconds of one submission: all, and of those the build stage.
submission()
{
    # The same source again would be the same submission.
    { cat tests/fixtures/allreduce_loads.cu && echo "// $1"; } >"$dir/bench.cu"
    start=$(date +%s%N)
    pkb submit "$dir/bench.cu" --task allreduce --world 4 --model bench --wait --json \
        >"$dir/bench.job" 2>"$dir/submit.log" || service_fail submit
    end=$(date +%s%N)
    built=$(jq -es '[.. | .build_ms? // empty] | last' "$dir/bench.job")
    echo $(((end - start) / 1000000)) "$built"
}

end_to_end()
{
    service_start
    worker_start
    number=0
    while [ $number -lt "${SUBMISSIONS:-9}" ]; do
        number=$((number + 1))
        submission $number >>"$dir/times"
    done
    figure e2e.build "$(awk '{ print $2 / 1000 }' "$dir/times" | median)" s
    figure e2e.overhead "$(awk '{ print ($1 - $2) / 1000 }' "$dir/times" | median)" s
    service_stop
    dir= server= worker=
}

builds()
{
    "$BUILD/bench/build" "${PAIRS:-5}" >"$figures.builds"
    grep '^#' "$figures.builds"
    while read -r name value unit; do
        figure "$name" "$value" "$unit"
    done <<END
$(grep -v '^#' "$figures.builds")
END
    rm -f "$figures.builds"
}

# The build stage of a source that was built before.
build_again()
{
    folder=$(mktemp -d)
    for _ in 1 2 3 4 5 6; do
        "$BUILD/bin/pkb-worker" --once tests/fixtures/syntax_error.cu --task allreduce --world 1 \
            --builds "$folder/builds" </dev/null 2>/dev/null | jq '.build_ms'
    done | tail -n 5 | median >"$folder/median"
    figure build.again "$(cat "$folder/median")" ms
    rm -rf "$folder"
}

run()
{
    case $1 in
    build.ratio)
        builds
        ;;
    build.again)
        build_again
        ;;
    e2e.*)
        end_to_end
        ;;
    *)
        line=$("$BUILD/bench/bench" "$1" ${SAMPLE_MS:+"$SAMPLE_MS"})
        # shellcheck disable=SC2086 # name, value, unit
        figure $line
        ;;
    esac
}

if [ $# -eq 0 ]; then
    set -- bench.cal
    for kernel in $kernels; do
        set -- "$@" "sim.$kernel"
    done
    set -- "$@" build.ratio build.again e2e.overhead
fi
for name in "$@"; do
    run "$name"
done
jq -nR --arg cpu "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" \
    --argjson cores "$(nproc)" --arg date "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
    '{cpu: $cpu, cores: $cores, date: $date,
      figures: [inputs | split(" ") | {name: .[0], value: (.[1] | tonumber), unit: .[2]}]}' \
    <"$figures" >"$BUILD/bench.json.new"
mv "$BUILD/bench.json.new" "$BUILD/bench.json"
