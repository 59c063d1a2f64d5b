#!/bin/sh
# The checks that need a GPU, as one table; any failure or skip makes it fail.
#
#   sh tests/gpu/check.sh [PART...]     parts: differential baselines fixtures api
#
# differential  every program of tests/gpu/kernels on the GPU and in the simulator, held together
# baselines     every task's baseline against its oracle: NCCL on 1 GPU, our libnccl on 2 and 4
#               ranks that share it through MPS
# fixtures      right and wrong submissions on 2 and 4 ranks that share the GPU
# api           the promises of CUDA that the simulator is held to as well
set -u
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$(pwd)/$BUILD ;; esac
export BUILD
scratch=$(mktemp -d)
failed=0
passed=0

row()
{
    printf '%-8s %-12s %-34s %s\n' "$1" "$2" "$3" "$4"
    if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

start_mps()
{
    export CUDA_MPS_PIPE_DIRECTORY=$scratch/mps CUDA_MPS_LOG_DIRECTORY=$scratch/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d || echo "no MPS: ranks share the GPU by time slices"
}

stop_mps()
{
    [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && echo quit | nvidia-cuda-mps-control >/dev/null 2>&1
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

differential()
{
    for program in "$BUILD"/gpu/*; do
        name=$(basename "$program")
        [ -x "$program" ] || continue
        [ "$name" != compare ] && [ "$name" != simulate ] || continue
        for seed in 1 2; do
            out=$scratch/$name.$seed
            if ! timeout 60 "$program" "$out.gpu" "$seed" >"$out.log" 2>&1; then
                row FAILED differential "$name seed $seed" "on the GPU: $(tail -n 1 "$out.log")"
            elif ! timeout 120 "$BUILD/gpu/simulate" "$program" "$out.sim" "$seed" \
                >"$out.log" 2>&1; then
                row FAILED differential "$name seed $seed" "simulated: $(tail -c 200 "$out.log")"
            elif ! "$BUILD/gpu/compare" "$out.sim" "$out.gpu" >"$out.log"; then
                row FAILED differential "$name seed $seed" \
                    "$(grep -v ' 0 wrong' "$out.log" | tail -n 1)"
            else
                row ok differential "$name seed $seed" "$(wc -l <"$out.log") outputs"
            fi
        done
    done
}

# Evaluates $2 for task $3 on $4 ranks of device kind $5, expecting verdict $6.
evaluate()
{
    result=$scratch/result.json
    timeout 120 "$BUILD/bin/pkb-worker" --once "$2" --task "$3" --world "$4" --device "$5" \
        --stall-ms 3000 --work-dir "$scratch" >"$result" 2>"$result.log"
    verdict=$(sed -n 's/^{"verdict":"\([a-z_]*\)".*/\1/p' "$result")
    if [ "$verdict" = "$6" ]; then
        row ok "$1" "$(basename "$2" .cu) $3 x$4 $5" "$verdict"
    else
        row FAILED "$1" "$(basename "$2" .cu) $3 x$4 $5" \
            "${verdict:-none}, not $6: $(cut -c 1-300 "$result") $(tail -n 2 "$result.log")"
    fi
}

baselines()
{
    for task in tasks/[0-9]*_*; do
        evaluate baselines "$task/baseline.cu" "$(basename "$task")" 1 cuda accepted
    done
    start_mps
    for task in tasks/[0-9]*_*; do
        for world in 2 4; do
            evaluate baselines "$task/baseline.cu" "$(basename "$task")" $world cuda-shared accepted
        done
    done
    stop_mps
}

fixtures()
{
    start_mps
    grep '^[a-z]' tests/fixtures/expected.tsv | while IFS="$(printf '\t')" read -r file task world \
        verdict _; do
        [ "$verdict" = accepted ] || [ "$verdict" = wrong_answer ] || continue
        echo "$file $task $world $verdict"
    done >"$scratch/fixtures"
    while read -r file task world verdict; do
        evaluate fixtures "tests/fixtures/$file.cu" "$task" "$world" cuda-shared "$verdict"
    done <"$scratch/fixtures"
    stop_mps
}

api()
{
    if CMOCKA_MESSAGE_OUTPUT=TAP PKB_TEST_DEVICE=cuda timeout 120 "$BUILD/tests/test_cuda_api" \
        >"$scratch/api.log" 2>&1; then
        row ok api test_cuda_api "$(grep -c '^ok ' "$scratch/api.log") promises"
    else
        row FAILED api test_cuda_api \
            "$(grep '^not ok' "$scratch/api.log" | tr '\n' ' ' | cut -c 1-600)"
    fi
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version | sed -n 's/^Build //p'
[ $# -gt 0 ] || set -- differential baselines fixtures api
for part in "$@"; do
    "$part"
done
stop_mps
rm -rf "$scratch"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
