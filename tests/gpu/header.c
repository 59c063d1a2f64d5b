/* header.c — prints the pkb_task.h of a task in bf16: `header TASK`. */
#include "tasks/task.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    const struct task *task = argc == 2 ? task_find(argv[1]) : NULL;
    struct buffer text = {0};

    if (task == NULL) {
        (void)fprintf(stderr, "usage: header TASK\n");
        return 2;
    }
    task_header_write(task, DTYPE_BF16, &text);
    int code = puts(text.data) < 0;
    buffer_release(&text);
    return code;
}
