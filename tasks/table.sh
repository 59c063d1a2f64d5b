#!/bin/sh
# Prints the C file that lists the task folders given as arguments, with their statements,
# baselines and the text of solution.h.
set -eu

# The lines of a file as C string literals.
quote() {
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/    "/' -e 's/$/\\n"/' "$1"
}

echo '/* Made by tasks/table.sh from the task folders. */'
echo '#include "tasks/table.h"'
echo '#include "tasks/task.h"'
for folder in "$@"; do
    name=$(basename "$folder")
    echo "extern const struct task task_${name#???_};"
done
echo 'const struct task *const tasks[] = {'
for folder in "$@"; do
    name=$(basename "$folder")
    echo "    &task_${name#???_},"
done
echo '};'
echo "const int task_count = $#;"
echo 'const char *const task_statements[] = {'
for folder in "$@"; do
    quote "$folder/README.md"
    echo '    ,'
done
echo '};'
echo 'const char *const task_baselines[] = {'
for folder in "$@"; do
    quote "$folder/baseline.cu"
    echo '    ,'
done
echo '};'
echo 'const char solution_header[] ='
quote tasks/solution.h
echo '    ;'
