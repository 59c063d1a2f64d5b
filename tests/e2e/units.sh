#!/bin/sh
# timeout: 300
# The units of deploy/systemd: systemd takes them, finds little that is exposed, and the worker does
# its work with the rights that its unit leaves it.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$(pwd)/$BUILD ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
number=0

report()
{
    number=$((number + 1))
    if [ "$1" = true ]; then
        echo "ok $number - $2"
    else
        echo "not ok $number - $2"
        tail -n 40 "$dir/out" | sed 's/^/# /'
    fi
}

skip()
{
    number=$((number + 1))
    echo "ok $number - $1 # SKIP the layer of systemd's tools is missing: $2"
}

# The values of a key of a unit, on one line.
value_of()
{
    sed -n "s/^$2=//p" "deploy/systemd/$1.service" | tr '\n' ' '
}

for unit in pkb-server pkb-worker; do
    # With the programs where they are here.
    sed "s|/opt/pkb/bin|$BUILD/bin|; /^Documentation=/d; s/^\(User\|Group\)=.*/\1=root/" \
        "deploy/systemd/$unit.service" >"$dir/$unit.service"
    case $unit in
    pkb-server) exposed=12 ;;
    pkb-worker) exposed=50 ;;
    esac
    if command -v systemd-analyze >/dev/null; then
        systemd-analyze verify "$dir/$unit.service" >"$dir/out" 2>&1 && status=0 || status=$?
        grep "$unit.service" "$dir/out" >"$dir/found" || true
        report "$([ $status -eq 0 ] && [ ! -s "$dir/found" ] && echo true)" "systemd takes $unit"
        systemd-analyze security --offline=true --threshold=$exposed \
            "deploy/systemd/$unit.service" >"$dir/out" 2>&1 && status=0 || status=$?
        level=$(tail -n 1 "$dir/out" | sed 's/.*level for [^:]*: \([0-9.]*\).*/\1/')
        report "$([ $status -eq 0 ] && echo true)" "$unit: $level of 10 is exposed"
    else
        skip "systemd takes $unit" systemd-analyze
        skip "little of $unit is exposed" systemd-analyze
    fi
done

# ---- the worker, with what its unit leaves it ----

if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null ||
    ! command -v systemd-analyze >/dev/null; then
    skip "the worker judges with the rights of its unit" "root, setpriv or systemd-analyze"
    skip "without one of them it says what is missing" "root, setpriv or systemd-analyze"
    echo "1..$number"
    exit 0
fi
gcc -O2 -Wall -Werror tests/fixtures/systemd/allow.c -lseccomp -o "$dir/allow"
for word in $(value_of pkb-worker SystemCallFilter); do
    case $word in
    @*) systemd-analyze syscall-filter "$word" ;;
    *) echo "$word" ;;
    esac
done | sed -n 's/^ *//; /^@/p; /^[a-z0-9_]*$/p' >"$dir/words"
# Sets hold sets, two deep at most.
for _ in 1 2 3; do
    while read -r word; do
        case $word in
        @*) systemd-analyze syscall-filter "$word" | sed -n 's/^ *//; /^@/p; /^[a-z0-9_]*$/p' |
            grep -v -x -e "$word" || true ;;
        *) echo "$word" ;;
        esac
    done <"$dir/words" | sort -u >"$dir/more"
    mv "$dir/more" "$dir/words"
done
grep -v '^@' "$dir/words" >"$dir/calls"

# judge CAPABILITIES: the verdict for a right answer, with these and the unit's filter.
judge()
{
    rights=-all$(echo "$1" | tr A-Z a-z | sed 's/ *cap_/,+/g; s/ *$//')
    setpriv --bounding-set="$rights" --no-new-privs "$dir/allow" "$dir/calls" \
        "$BUILD/bin/pkb-worker" --once tests/fixtures/allreduce_loads.cu --task allreduce \
        --world 2 --schedules 1 --work-dir "$dir" 2>"$dir/out" |
        jq -r '.verdict + " " + (.flags // [] | join(","))'
}

capabilities=$(value_of pkb-worker CapabilityBoundingSet)
verdict=$(judge "$capabilities") || true
report "$([ "$verdict" = "accepted " ] && echo true)" \
    "the worker judges with the rights of its unit, all layers on ($verdict)"
verdict=$(judge "$(echo "$capabilities" | sed 's/CAP_SETUID //')") || true
report "$([ -z "$verdict" ] && grep -q "cannot" "$dir/out" && echo true)" \
    "without one of them it says what is missing"
echo "1..$number"
