# tried.sh: one job that is checked and timed, and the corpora of hostile and honest submissions,
# for check.sh, which sources this.

# The number $2 of the first row of times in the result $1: "latency":{... "NAME":NUMBER.
number()
{
    sed -n "s/.*\"latency\":{[^}]*\"$2\":\([0-9.e+-]*\).*/\1/p" "$1" | head -n 1
}

# Is |$1 - $2| at most the larger of $3 and the share $4 of $2?
is_near()
{
    awk -v a="${1:-nan}" -v b="${2:-nan}" -v least="$3" -v share="$4" 'BEGIN {
        d = a - b; if (d < 0) d = -d
        limit = share * b > least ? share * b : least
        exit !(a > 0 && b > 0 && d <= limit) }'
}

# Times $1 on $2 ranks of $3 for task $4 into $5.
time_once()
{
    # shellcheck disable=SC2086 # a list of options
    timeout 200 "$BUILD/bin/pkb-worker" $WORKER_OPTIONS --once "$1" --task "$4" --world "$2" \
        --device "$3" --bench --work-dir "$scratch" >"$5" 2>"$5.log"
    verdict=$(sed -n 's/^{"verdict":"\([a-z_]*\)".*/\1/p' "$5")
    note_fault "$verdict"
    [ "$verdict" = accepted ] && return 0
    row FAILED timing "$(basename "$1" .cu) x$2 $3" \
        "${verdict:-none}: $(cut -c 1-1500 "$5") $(tail -n 3 "$5.log")"
    return 1
}

compare_times()
{
    if is_near "$3" "$4" "$5" "$6"; then
        row ok timing "$1" "$2: $3 and $4 us"
    else
        row FAILED timing "$1" "$2: $3 and $4 us"
    fi
}

# The source of submission $1 of folder $2, whose common part goes in front, or of another one.
source_of()
{
    case $1 in
    */*) echo "tests/$1.cu" ;;
    *)
        mkdir -p "$scratch/sources"
        cat tests/hostile/work.cuh "tests/$2/$1.cu" >"$scratch/sources/$1.cu"
        echo "$scratch/sources/$1.cu"
        ;;
    esac
}

# Evaluates $1 for task $2 on $3 ranks, on a GPU of its own for one; sets `verdict` and `took`.
try_once()
{
    kind=cuda-shared
    options=
    [ "$3" -gt 1 ] || { kind=cuda && options=--bench; }
    # shellcheck disable=SC2086 # lists of options
    timeout 120 "$BUILD/bin/pkb-worker" $WORKER_OPTIONS --once "$1" --task "$2" --world "$3" \
        --device $kind $options --stall-ms 3000 --work-dir "$scratch" \
        --baselines "$scratch/times" >"$scratch/tried.json" 2>"$scratch/tried.log"
    verdict=$(sed -n 's/^{"verdict":"\([a-z_]*\)".*/\1/p' "$scratch/tried.json")
    took=$(number "$scratch/tried.json" median_us)
}

say_tried()
{
    echo "${verdict:-none} $(cut -c 1-700 "$scratch/tried.json") $(tail -n 2 "$scratch/tried.log")"
}

# A tab, for tables.
tab=$(printf '\t')

hostile()
{
    grep '^[a-z.]' tests/hostile/expected.tsv >"$scratch/hostile"
    same_work=nan
    while IFS=$tab read -r file task world _ _ outcome <&3; do
        world=${world#+}
        try_once "$(source_of "$file" hostile)" "$task" "$world"
        name="$file x$world"
        case $outcome:$verdict in
        accepted:accepted)
            same_work=$took
            row ok hostile "$name" "$took us: $(sed -n \
                's/.*\("calibration_us":[^}]*"slow_us":[0-9.]*\).*/\1/p' "$scratch/tried.json")"
            ;;
        accepted:*)
            row FAILED hostile "$name" "$(say_tried)"
            break
            ;;
        slow:accepted)
            if awk -v a="${took:-nan}" -v b="$same_work" 'BEGIN { exit !(a >= 0.98 * b - 0.5) }'
            then
                row ok hostile "$name" "accepted, $took us, without it $same_work us"
            else
                row FAILED hostile "$name" "takes $took us, without it $same_work us: $(say_tried)"
            fi
            ;;
        *:internal_error | *: | refused:accepted) row FAILED hostile "$name" "$(say_tried)" ;;
        *) row ok hostile "$name" "$verdict $(sed -n \
            's/^[^,]*,"reason":"\([a-z_]*\)".*/\1/p' "$scratch/tried.json")" ;;
        esac
        note_fault "$verdict" || break
    done 3<"$scratch/hostile"
}

honest()
{
    grep '^[a-z.]' tests/honest/expected.tsv >"$scratch/honest"
    while IFS=$tab read -r file task world _ <&3; do
        source=$(source_of "$file" honest)
        times=
        for run in $(seq "${HONEST_RUNS:-5}"); do
            try_once "$source" "$task" "$world"
            [ "$verdict" = accepted ] || break
            times="$times $took"
        done
        if [ "$verdict" = accepted ]; then
            row ok honest "$file x$world" "$run runs:$times us"
        else
            row FAILED honest "$file x$world" "run $run: $(say_tried)"
        fi
        note_fault "$verdict" || break
    done 3<"$scratch/honest"
}
