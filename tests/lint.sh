#!/bin/sh
# Everything of our style that a tool can check. Prints one line per finding and exits 1 if there is
# any.
#
#   sh tests/lint.sh                      every rule
#   sh tests/lint.sh RULE...              those only: text, headers, tasks, names, shell, format,
#                                         cppcheck, tidy
#   sh tests/lint.sh --fix                format in place
#   sh tests/lint.sh --root DIR RULE...   another tree (tests/e2e/lint_rules.sh does this)
#
# clang-tidy's answer for a file is kept under $BUILD/lint until what the preprocessor makes of it
# changes.
set -eu

BUILD=${BUILD:-build}
CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
script=$(cd "$(dirname "$0")" && pwd)
case ${1:-} in
--root)
    cd "$2"
    shift 2
    ;;
*) cd "$script/.." ;;
esac
cache=$BUILD/lint
flags="-std=gnu2x -D_GNU_SOURCE -I. -I$BUILD -isystem $CUDA_HOME/include
-Wall -Wextra -Wshadow -Wvla -Wformat=2"

# Paths of our own files, relative to the top, that match the patterns.
files()
{
    for pattern in "$@"; do
        find . \( -path ./.git -o -path './build*' \) -prune -o -type f -name "$pattern" -print
    done | sed 's|^\./||' | LC_ALL=C sort
}

text()
{
    files '*.[ch]' '*.cu' | while read -r file; do
        awk -f "$script/lint_text.awk" "$file"
    done
}

# Each header compiles with nothing before it.
headers()
{
    files '*.h' | while read -r file; do
        # shellcheck disable=SC2086 # a list of words
        echo "#include \"$file\"" | gcc $flags -Werror -x c -fsyntax-only - 2>&1 |
            sed "s|^|$file:1: headers: |"
    done
}

# A task is a folder of three files, found by its name.
tasks()
{
    for folder in tasks/*/; do
        [ -d "$folder" ] || continue
        folder=${folder%/}
        case ${folder#tasks/} in
        [0-9][0-9][0-9]_[a-z]*) ;;
        *) echo "$folder:1: tasks: a task's folder is called NNN_name" ;;
        esac
        for file in task.c README.md; do
            [ -f "$folder/$file" ] || echo "$folder/$file:1: tasks: is missing"
        done
        find "$folder" -mindepth 1 ! -name task.c ! -name baseline.cu ! -name README.md |
            sed 's/$/:1: tasks: a task is task.c, baseline.cu and README.md/'
    done
}

# Nothing names the place where it was written, and nothing is fetched from anywhere.
names()
{
    # The brackets keep this file from matching itself.
    files '*' | xargs grep -InE '/wor[k]/|/tmp/pk[b]|/opt/whee[l]|\.\./share[d]/' /dev/null |
        sed 's/^\([^:]*:[0-9]*\):/\1: names: a path of one machine: /'
    files '*' | xargs grep -InoE 'https?://[A-Za-z0-9][A-Za-z0-9.-]*' /dev/null |
        grep -vE '://(127\.0\.0\.1|[A-Za-z]+|www\.rfc-editor\.org|json-schema\.org)$' |
        grep -vE '://([a-z.-]+\.)?example(\.(com|org|net))?$' |
        sed 's/^\([^:]*:[0-9]*\):/\1: names: an address: /'
}

shell()
{
    files '*.sh' run | while read -r file; do
        case $(head -n 1 "$file") in
        *bash) bash -n "$file" 2>&1 ;;
        *) sh -n "$file" 2>&1 ;;
        esac | sed "s|^|$file:1: shell: |"
        awk 'length > 100 { printf "%s:%d: shell: over 100 columns\n", FILENAME, FNR }' "$file"
    done
}

format()
{
    case $(clang-format --version) in
    *'version 14.'*) ;;
    *) echo "tests/lint.sh:1: format: clang-format 14 is needed; others format differently" ;;
    esac
    files '*.[ch]' '*.cu' '*.cuh' | xargs -r clang-format --style=file --dry-run 2>&1 |
        sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: warning: \(.*\)$/\1: format: \2/p'
}

# uninitvar is left to clang-analyzer, which sees what a callee fills. gcc and clang say what a
# right shift of a negative number is, and floats are those of x86-64 everywhere.
check_cppcheck()
{
    mkdir -p "$cache/cppcheck"
    files '*.c' >"$cache/cppcheck.files"
    cppcheck --enable=warning,performance,portability --quiet --inline-suppr -j 2 -I. \
        -D_GNU_SOURCE --suppress=missingIncludeSystem --suppress=uninitvar \
        --suppress=shiftTooManyBitsSigned --suppress=invalidPointerCast \
        --cppcheck-build-dir="$cache/cppcheck" \
        --template='{file}:{line}: cppcheck: {message} [{id}]' --template-location= \
        --file-list="$cache/cppcheck.files" 2>&1
}

# One file per process: clang-tidy 14 forgets what va_start is after the first. How many parameters
# CUDA's own functions have is not ours to say.
tidy_one()
{
    # shellcheck disable=SC2086 # a list of words
    key=$({ cat .clang-tidy && echo "$flags" && gcc $flags -E -C "$1"; } 2>/dev/null | sha256sum)
    known=$cache/tidy/${key%% *}
    if [ ! -e "$known" ]; then
        # shellcheck disable=SC2086 # a list of words
        clang-tidy --quiet "$1" -- $flags 2>&1 |
            sed -n "s|^$PWD/||; s/^\(.*:[0-9]*\):[0-9]*: \(error\|warning\): /\1: tidy: /p" |
            sed "/^sim.*function '_*\(cu\|nccl\)[A-Za-z0-9_]*' exceeds/d" >"$known.$$"
        mv "$known.$$" "$known"
    fi
    cat "$known"
}

tidy()
{
    mkdir -p "$cache/tidy"
    files '*.c' | xargs -r -P 2 -n 1 sh "$script/lint.sh" --root . --tidy-one
}

if [ "${1:-}" = --fix ]; then
    files '*.[ch]' '*.cu' '*.cuh' | xargs clang-format --style=file -i
    exit 0
fi
if [ "${1:-}" = --tidy-one ]; then
    tidy_one "$2"
    exit 0
fi

[ $# -ne 0 ] || set -- text headers tasks names shell format cppcheck tidy
mkdir -p "$cache"
findings=$cache/findings.$$
for rule in "$@"; do
    case $rule in
    cppcheck) check_cppcheck ;;
    text | headers | tasks | names | shell | format | tidy) "$rule" ;;
    *) echo "tests/lint.sh:1: there is no rule '$rule'" ;;
    esac
done >"$findings"
sort -u "$findings"
count=$(sort -u "$findings" | wc -l)
rm -f "$findings"
[ "$count" -eq 0 ] || {
    echo "lint: $count findings" >&2
    exit 1
}
