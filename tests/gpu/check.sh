#!/bin/sh
# The checks that need a GPU, as one table; any failure or skip makes it fail.
#
#   sh tests/gpu/check.sh [PART...]
#
# The parts are, all by default:
#
# differential  every program of tests/gpu/kernels on the GPU and in the simulator, held together
# ranks         kernels of several ranks (one-shot, two-shot, ring, all-to-all) that share the GPU
#               through MPS and in the simulator: right by the oracle, and the same bits
# baselines     every task's baseline against its oracle, and timed: NCCL on 1 GPU, our libnccl on 2
#               and 4 ranks that share it through MPS, LANES=4 jobs at a time, whose times say
#               little; WORLDS='1' or others instead
# submissions   those of tests/submissions that are written to win, likewise, against the baselines
# fixtures      right and wrong submissions on 2 and 4 ranks that share the GPU
# hostile       submissions that cheat: none is accepted that is wrong, and none takes less time
#               than the same work without the attack
# honest        submissions that do what few do, HONEST_RUNS (five) times each: none is rejected
# timing        the judge's clock on one rank, against programs of their own that do the same
# gemm          the baselines' products against the best that cuBLAS has for their shapes
# judge         every fixture on hardware, ranks taking turns on the GPU
# turnaround    from submit to verdict, and how long a job holds the GPU; 60 mixed jobs: their rate
# build         a submission that was built by nvcc's commands side by side, and one by nvcc itself
# sandbox       its layers on this machine, what CUDA does inside it, and what each layer costs
# attacks       what a hostile rank tries (tests/attacks) inside the full sandbox, on this GPU by
#               time slices and through MPS
# api           the promises of CUDA, of our libnccl and of cuBLAS that the simulator is held to as
#               well
set -u
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$(pwd)/$BUILD ;; esac
export BUILD
scratch=$(mktemp -d)
chmod 755 "$scratch" # jobs run as other users, and reach MPS below it
failed=0
passed=0
# Where bubblewrap is not installed, that which gpu-programs has packed.
bwrap=/usr/bin/bwrap
[ -x "$bwrap" ] || bwrap=$BUILD/gpu/bwrap/bwrap
WORKER_OPTIONS="--bwrap $bwrap ${WORKER_OPTIONS:-}"
# Which layers of the sandbox this machine cannot have: those that the caller knows of.
missing=$(echo "$WORKER_OPTIONS" | tr ' ' '\n' | sed -n 's/^--insecure=//p' | tr '\n' , |
    sed 's/,*$//')

. tests/gpu/lanes.sh
. tests/gpu/tried.sh

row()
{
    printf '%-8s %-12s %-34s %s\n' "$1" "$2" "$3" "$4"
    if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

start_mps()
{
    export CUDA_MPS_PIPE_DIRECTORY=$scratch/mps CUDA_MPS_LOG_DIRECTORY=$scratch/mps-log
    mkdir -p "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    chmod 1777 "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
    nvidia-cuda-mps-control -d -multiuser-server ||
        echo "no MPS: ranks share the GPU by time slices"
}

# Also waits until its server is gone: no part that wants the GPU alone would get it.
stop_mps()
{
    [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] || return 0
    echo quit | timeout 10 nvidia-cuda-mps-control >/dev/null 2>&1
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        pgrep -x nvidia-cuda-mps >/dev/null || break
        sleep 1
    done
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
}

clean()
{
    stop_mps
    rm -rf "$scratch"
}
trap clean EXIT
trap 'exit 1' INT TERM

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

# Rows one after the other that failed of our own fault; with 3 of them the part is of no use.
same=0
note_fault()
{
    case $1 in
    internal_error | '') same=$((same + 1)) ;;
    *) same=0 ;;
    esac
    [ $same -lt 3 ]
}

# Evaluates $2 for task $3 on $4 ranks of device kind $5, expecting verdict $6.
evaluate()
{
    result=$scratch/result.json
    # shellcheck disable=SC2086 # a list of options
    timeout 120 "$BUILD/bin/pkb-worker" $WORKER_OPTIONS --once "$2" --task "$3" --world "$4" \
        --device "$5" --stall-ms 3000 --work-dir "$scratch" >"$result" 2>"$result.log"
    verdict=$(sed -n 's/^{"verdict":"\([a-z_]*\)".*/\1/p' "$result")
    if [ "$verdict" = "$6" ]; then
        row ok "$1" "$(basename "$2" .cu) $3 x$4 $5" "$verdict"
    else
        row FAILED "$1" "$(basename "$2" .cu) $3 x$4 $5" \
            "${verdict:-none}, not $6: $(cut -c 1-300 "$result") $(tail -n 2 "$result.log")"
    fi
    note_fault "$verdict"
}

# What becomes of $1 for task $2 on $3 ranks of device kind $4: its verdict, and the digest of all
# that it computed from a fixed seed.
digest()
{
    # shellcheck disable=SC2086 # some words
    timeout 120 "$BUILD/bin/pkb-worker" --once "$1" --task "$2" --world "$3" --device "$4" \
        --seed 20261201 --schedules 1 --no-multicast --stall-ms 3000 --work-dir "$scratch" \
        ${WORKER_OPTIONS:-} >"$scratch/digest.json" 2>"$scratch/digest.log"
    sed -n 's/^{"verdict":"\([a-z_]*\)".*"output_digest":"\([0-9a-f]*\)".*/\1 \2/p' \
        "$scratch/digest.json" | grep . ||
        echo "$(cut -c 1-300 "$scratch/digest.json") $(tail -n 2 "$scratch/digest.log")"
}

ranks()
{
    start_mps
    grep '^[a-z]' tests/gpu/ranks.tsv >"$scratch/ranks"
    while read -r file task kind; do
        for world in 2 4; do
            source=tests/fixtures/$file.cu
            on_gpu=$(digest "$source" "$task" $world cuda-shared)
            in_sim=$(digest "$source" "$task" $world sim)
            name="$kind: $file x$world"
            if [ "$on_gpu" = "$in_sim" ] && [ "${on_gpu%% *}" = accepted ]; then
                row ok ranks "$name" "$on_gpu"
            else
                row FAILED ranks "$name" "on the GPU: $on_gpu; simulated: $in_sim"
            fi
        done
    done <"$scratch/ranks"
    stop_mps
}

baselines()
{
    for task in tasks/[0-9]*_*; do
        echo "$task/baseline.cu $(basename "$task")"
    done >"$scratch/baselines"
    measure_part baselines "$scratch/baselines"
}

submissions()
{
    awk -F'\t' '/^[a-z]/ && $4 == "accepted" { print "tests/submissions/" $1 ".cu", $2 }' \
        tests/submissions/expected.tsv >"$scratch/submissions"
    measure_part submissions "$scratch/submissions"
}

fixtures()
{
    start_mps
    grep '^[a-z]' tests/fixtures/expected.tsv | while IFS="$(printf '\t')" read -r file task world \
        verdict _; do
        [ "$verdict" = accepted ] || [ "$verdict" = wrong_answer ] || continue
        world=${world#+}
        [ "$world" -le 4 ] || continue
        echo "$file $task $world $verdict"
    done | LC_ALL=C sort -u >"$scratch/fixtures"
    while read -r file task world verdict; do
        evaluate fixtures "tests/fixtures/$file.cu" "$task" "$world" cuda-shared "$verdict"
    done <"$scratch/fixtures"
    stop_mps
}

timing()
{
    for own in "$BUILD"/timing/own.*; do
        turns=${own##*.}
        one=$scratch/copy.$turns.1
        two=$scratch/copy.$turns.2
        by_itself=$(timeout 100 "$own" 2>&1)
        source=$BUILD/timing/copy.$turns.cu
        [ $same -lt 3 ] || break
        time_once "$source" 1 cuda allreduce "$one" || continue
        time_once "$source" 1 cuda allreduce "$two" || continue
        sed -n 's/.*"timings":\[\([^]]*\)\].*/  \1/p' "$one" "$two"
        compare_times "copy x $turns" "judge and own program" "$(number "$one" median_us)" \
            "$by_itself" 0.5 0.02
        compare_times "copy x $turns" "two judgements" "$(number "$one" median_us)" \
            "$(number "$two" median_us)" 0.5 0.02
        compare_times "copy x $turns" "events and judge's clock" "$(number "$one" events_us)" \
            "$(number "$one" window_us)" 2 0
    done
    start_mps
    for world in 2 4; do
        if time_once tasks/001_allreduce/baseline.cu $world cuda-shared allreduce \
            "$scratch/shared"; then
            row ok timing "baseline x$world cuda-shared" "$(number "$scratch/shared" median_us) us"
        fi
    done
    stop_mps
}

gemm()
{
    grep '^0' tests/gpu/gemm.tsv >"$scratch/gemm"
    while read -r task shapes; do
        # shellcheck disable=SC2086 # a list of numbers
        LD_LIBRARY_PATH=${CUDA_HOME:-/usr/local/cuda}/lib64:$BUILD/lib/nccl:${LD_LIBRARY_PATH:-} \
            timeout 60 "$BUILD/timing/gemm.$task" $shapes >"$scratch/gemm.log" 2>&1 ||
            grep -q '^FAILED' "$scratch/gemm.log" ||
            echo "FAILED $(tail -n 1 "$scratch/gemm.log")" >>"$scratch/gemm.log"
        while read -r verdict text; do
            row "$verdict" gemm "$task" "$text"
        done <"$scratch/gemm.log"
    done <"$scratch/gemm"
}

# Every fixture whose verdict does not need the simulator; ranks take turns on the GPU, so that a
# fault of one is not everybody's.
judge()
{
    grep '^[a-z]' tests/fixtures/expected.tsv | while IFS="$(printf '\t')" read -r file task world \
        verdict reason _; do
        # Not what only the simulator has, needs no GPU, or is done by other parts.
        case $world:$verdict in
        +* | *:not_simulable | *:compile_error | *:link_error | 4:accepted) continue ;;
        esac
        case $file in *multimem*) continue ;; esac
        # FIXTURES: only these.
        case " ${FIXTURES:-$file} " in *" $file "*) ;; *) continue ;; esac
        # On hardware a kernel that runs for ever is one that waits for ever.
        [ "$file" = endless_kernel ] && verdict=deadlock
        echo "$file $task $world $verdict $reason"
    done >"$scratch/judge"
    while read -r file task world verdict _; do
        evaluate judge "tests/fixtures/$file.cu" "$task" "$world" cuda-shared "$verdict" || break
    done <"$scratch/judge"
}

# Finds which layers there are; $1 is told what is missing, and is gone without from then on.
layers()
{
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        # Without a source to read, only the self-test is done.
        # shellcheck disable=SC2086 # a list of options
        "$BUILD/bin/pkb-worker" $WORKER_OPTIONS --once "$scratch/none.cu" \
            --task allreduce --world 1 >"$scratch/layers.log" 2>&1
        found=$(sed -n 's/.*missing layers of the sandbox: //p' "$scratch/layers.log")
        [ -n "$found" ] || break
        $1 "$found"
        # "uid, cgroup: why" or "net: why; ipc: why"
        names=$(echo "$found" | tr ';' '\n' | sed 's/:.*//' | tr -d ' ' | tr '\n' , |
            sed 's/,*$//')
        missing=${missing:+$missing,}$names
        WORKER_OPTIONS="$WORKER_OPTIONS --insecure=$names"
    done
}

say_layer()
{
    row MISSING sandbox layers "$1"
}

sandbox()
{
    layers say_layer
    if [ -z "$missing" ]; then
        row ok sandbox layers "all, by attack"
    else
        row FAILED sandbox layers "without $missing: $(tail -n 1 "$scratch/layers.log")"
    fi
    evaluate sandbox tasks/001_allreduce/baseline.cu allreduce 1 cuda accepted
    whole=$WORKER_OPTIONS
    mkdir -p "$scratch/without"
    cp -r "$BUILD/gpu/bwrap/." tests/gpu/bwrap_without_sys.sh "$scratch/without/"
    chmod 755 "$scratch/without" "$scratch/without/bwrap_without_sys.sh"
    WORKER_OPTIONS="$WORKER_OPTIONS --bwrap $scratch/without/bwrap_without_sys.sh"
    evaluate sandbox tasks/001_allreduce/baseline.cu allreduce 1 cuda accepted
    WORKER_OPTIONS=$whole
    for kind in slices mps; do
        [ $kind = slices ] || start_mps
        # 4 ranks import 8 arenas and 4 signal pads from the judge, who is another user.
        evaluate sandbox tests/fixtures/allreduce_loads.cu allreduce 4 cuda-shared accepted
        evaluate sandbox tests/fixtures/symm_alloc.cu allreduce 2 cuda-shared accepted
        evaluate sandbox tests/fixtures/ipc_handles.cu allreduce 2 cuda-shared accepted
        evaluate sandbox tests/fixtures/kill_parent.cu allreduce 2 cuda-shared contract_violation
        [ $kind = slices ] || stop_mps
    done
    cost
}

cost()
{
    if env PKB_TEST_BWRAP="$bwrap" ${missing:+PKB_TEST_INSECURE="$missing"} \
        "$BUILD/gpu/sandbox_cost" 100 >"$scratch/cost.log" 2>&1; then
        row ok sandbox "cost of each layer" "below"
    else
        row FAILED sandbox "cost of each layer" "$(tail -n 1 "$scratch/cost.log")"
    fi
    cat "$scratch/cost.log"
}

attacks()
{
    layers :
    for kind in slices mps; do
        [ $kind = slices ] || start_mps
        if env CMOCKA_MESSAGE_OUTPUT=TAP PKB_TEST_DEVICE=cuda-shared PKB_TEST_BWRAP="$bwrap" \
            ${missing:+PKB_TEST_INSECURE="$missing"} \
            timeout 100 "$BUILD/tests/test_attacks" >"$scratch/attacks.log" 2>&1; then
            row ok attacks $kind "all, without ${missing:-no} layer"
        else
            row FAILED attacks $kind "below, without ${missing:-no} layer"
        fi
        grep -v '^1\.\.' "$scratch/attacks.log"
        [ $kind = slices ] || stop_mps
    done
}

turnaround()
{
    env WORKER_OPTIONS="$WORKER_OPTIONS" timeout 400 sh tests/gpu/turnaround.sh cuda \
        >"$scratch/turnaround.log" 2>&1 || row FAILED turnaround script "see below"
    while read -r word what text; do
        case $word in ok | FAILED) row "$word" turnaround "$what" "$text" ;; esac
    done <"$scratch/turnaround.log"
    cat "$scratch/turnaround.log"
}

build()
{
    plain=$WORKER_OPTIONS
    for builder in stages nvcc; do
        WORKER_OPTIONS="$plain --builder $builder"
        for file in tests/fixtures/allreduce_loads.cu tests/fixtures/allreduce_two_shot.cu \
            tasks/001_allreduce/baseline.cu; do
            evaluate "build" "$file" allreduce 1 cuda accepted || break
            grep -q "\"builder\":\"$builder\"" "$scratch/result.json" ||
                row FAILED build "$(basename "$file")" "not built by $builder"
        done
    done
    WORKER_OPTIONS=$plain
}

api()
{
    for program in test_cuda_api test_libraries; do
        if CMOCKA_MESSAGE_OUTPUT=TAP PKB_TEST_DEVICE=cuda timeout 120 "$BUILD/tests/$program" \
            >"$scratch/api.log" 2>&1; then
            row ok api $program "$(grep -c '^ok ' "$scratch/api.log") promises"
        else
            row FAILED api $program \
                "$(grep '^not ok' "$scratch/api.log" | tr '\n' ' ' | cut -c 1-600)"
        fi
    done
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
ls /dev/nvidia* 2>/dev/null | tr '\n' ' '
ldconfig -p | sed -n 's/.*libcuda.so.1 .*=> //p' | head -n 1
"${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" --version | sed -n 's/^Build //p'
[ $# -gt 0 ] || set -- differential ranks baselines submissions fixtures timing hostile honest \
    judge sandbox turnaround build attacks api
case " $* " in *" sandbox "*) ;; *) layers : ;; esac
for part in "$@"; do
    same=0
    "$part"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
