# lanes.sh: jobs that are checked and timed, alone or several at the same time, for check.sh, which
# sources this. They go through the files and counters of check.sh.

# The number $2 of the first case in the result $1 that was timed.
first()
{
    sed -n "s/^[^[]*\"timings\":\[{\(.*\)/\1/p" "$1" |
        sed -n "s/[^}]*\"latency\":{[^}]*\"$2\":\([0-9.e+-]*\).*/\1/p; t
            s/^[^]]*\"$2\":\([0-9.e+-]*\).*/\1/p"
}

# Checks and times $2 for task $3 on $4 ranks of device kind $5 in lane $1, which has users and a
# directory of its own, and prints a row of part $6, which begins with $7 where it fails.
measure()
{
    home=$scratch/lane.$1
    result=$home/result.json
    mkdir -p "$home"
    chmod 755 "$home"
    # shellcheck disable=SC2086 # a list of options
    timeout 150 "$BUILD/bin/pkb-worker" $WORKER_OPTIONS --once "$2" --task "$3" --world "$4" \
        --device "$5" --bench --stall-ms 5000 --slot-uid-base $((64000 + 64 * $1)) \
        --work-dir "$home" --baselines "$scratch/times" >"$result" 2>"$home/log" </dev/null
    verdict=$(sed -n 's/^{"verdict":"\([a-z_]*\)".*/\1/p' "$result")
    case $2 in
    */baseline.cu) name=baseline ;;
    *) name=$(basename "$2" .cu) ;;
    esac
    if [ "$verdict" = accepted ]; then
        printf 'ok       %-12s %-34s %s us, baseline %s us' "$6" "$name $3 x$4 $5" \
            "$(first "$result" median_us)" "$(first "$result" baseline_us)"
        printf ', %.2f times as fast, %.0f %% of the target %s\n' \
            "$(first "$result" speedup)" "$(first "$result" target_percent)" \
            "$(sed -n 's/.*"flags":\(\[[^]]*\]\).*/\1/p' "$result")"
    else
        printf '%-8s %-12s %-34s %s\n' "$7" "$6" "$name $3 x$4 $5" \
            "${verdict:-none}: $(cut -c 1-400 "$result") $(tail -n 2 "$home/log" | tr '\n' ' ')"
    fi
}

# Lane $1: the jobs of the file $2, "SOURCE TASK WORLD DEVICE" each, as rows of part $3. One that
# fails is called $4, and is listed in $2.again. The third fault of our own in a row ends it.
run_lane()
{
    faults=0
    while [ $faults -lt 3 ] && read -r source task world device; do
        measure "$1" "$source" "$task" "$world" "$device" "$3" "$4" >"$2.row"
        cat "$2.row"
        cat "$2.row" >>"$2.rows"
        case $(cat "$2.row") in
        ok*) faults=0 ;;
        *internal_error:* | *none:*) faults=$((faults + 1)) ;;
        esac
        grep -q '^ok' "$2.row" || echo "$source $task $world $device" >>"$2.again"
    done <"$2"
}

count_rows()
{
    passed=$((passed + $(cat "$@" 2>/dev/null | grep -c '^ok')))
    failed=$((failed + $(cat "$@" 2>/dev/null | grep -c '^FAILED')))
}

# The jobs of the file $2 in $3 lanes at the same time. Who fails there may have been disturbed by
# the others, and gets another try alone.
measure_in_lanes()
{
    for lane in $(seq 1 "$3"); do
        awk -v lane="$lane" -v lanes="$3" 'NR % lanes == lane % lanes' "$2" >"$2.$lane"
        run_lane "$lane" "$2.$lane" "$1" again &
    done
    wait
    cat "$2".[1-9].again >"$2.alone" 2>/dev/null
    run_lane 1 "$2.alone" "$1" FAILED
    count_rows "$2".[1-9].rows "$2.alone.rows"
}

# Part $1: the sources of the file $2, "SOURCE TASK" each, on 1, 2 and 4 ranks or those of WORLDS.
measure_part()
{
    : >"$2.one"
    : >"$2.more"
    for world in ${WORLDS:-1 2 4}; do
        case $world in
        1) sed "s/\$/ 1 cuda/" "$2" >"$2.one" ;;
        *) sed "s/\$/ $world cuda-shared/" "$2" >>"$2.more" ;;
        esac
    done
    run_lane 1 "$2.one" "$1" FAILED
    start_mps
    # Alone at first: several that start with the MPS server are told that devices are unavailable.
    head -n 1 "$2.more" >"$2.first"
    sed -i 1d "$2.more"
    run_lane 1 "$2.first" "$1" FAILED
    measure_in_lanes "$1" "$2.more" "${LANES:-4}"
    stop_mps
    count_rows "$2.one.rows" "$2.first.rows"
}
