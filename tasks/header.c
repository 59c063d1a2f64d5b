/*
 * header.c — the text of pkb_task.h.
 *
 * Names, dtypes and shape texts are the same in every run of a task, so any plan serves.
 */
#include "tasks/declare.h"
#include "tasks/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How C and CUDA name an element. */
static const char *const type_names[DTYPE_COUNT] = {
    [DTYPE_BF16] = "pkb_bf16", [DTYPE_FP16] = "pkb_fp16",   [DTYPE_FP32] = "float",
    [DTYPE_FP64] = "double",   [DTYPE_E4M3] = "uint8_t",    [DTYPE_E5M2] = "uint8_t",
    [DTYPE_INT8] = "int8_t",   [DTYPE_UINT8] = "uint8_t",   [DTYPE_INT32] = "int32_t",
    [DTYPE_INT64] = "int64_t", [DTYPE_COMPLEX64] = "float", [DTYPE_BOOL8] = "uint8_t",
};

static const char *const type_notes[DTYPE_COUNT] = {
    [DTYPE_BF16] = "",          [DTYPE_E4M3] = ", codes",
    [DTYPE_E5M2] = ", codes",   [DTYPE_COMPLEX64] = ", re and im interleaved",
    [DTYPE_BOOL8] = ", 0 or 1",
};

/* bf16 and fp16 are classes of C++. */
static const char small_types[] = "#include <cuda_bf16.h>\n"
                                  "#include <cuda_fp16.h>\n"
                                  "#ifdef __cplusplus\n"
                                  "typedef __nv_bfloat16 pkb_bf16;\n"
                                  "typedef __half pkb_fp16;\n"
                                  "#else /* C has no such types: their bits */\n"
                                  "typedef uint16_t pkb_bf16;\n"
                                  "typedef uint16_t pkb_fp16;\n"
                                  "#endif\n"
                                  "\n";

static const char *const working_types[] = {
    [DTYPE_BF16] = "#define PKB_DTYPE_BF16 1\ntypedef pkb_bf16 pkb_t;\n"
                   "#define PKB_NCCL_T ncclBfloat16\n#define PKB_CUDA_T CUDA_R_16BF\n",
    [DTYPE_FP16] = "#define PKB_DTYPE_FP16 1\ntypedef pkb_fp16 pkb_t;\n"
                   "#define PKB_NCCL_T ncclFloat16\n#define PKB_CUDA_T CUDA_R_16F\n",
    [DTYPE_FP32] = "#define PKB_DTYPE_FP32 1\ntypedef float pkb_t;\n"
                   "#define PKB_NCCL_T ncclFloat32\n#define PKB_CUDA_T CUDA_R_32F\n",
};

static const char preamble[] =
    "/*\n"
    " * pkb_task.h for task %03d_%s with dtype %s: %s.\n"
    " *\n"
    " * Made by pkb. One .cu file includes this and defines pkb_run (and, if it wants, pkb_setup "
    "and\n"
    " * pkb_teardown); solution.h says what both sides promise. Worlds: %s. In the shapes W is\n"
    " * ctx->world, r is ctx->rank, T is pkb_t, and the other names are fields of pkb_params.\n"
    " */\n"
    "#pragma once\n"
    "\n"
    "#include \"solution.h\"\n"
    "\n";

static void write_params_struct(const struct task *task, struct buffer *text)
{
    static const struct {
        const char *type, *extent, *note;
    } forms[] = {
        [PARAM_INT64] = {"int64_t", "", ""},      [PARAM_FP32] = {"double", "", "an fp32 value: "},
        [PARAM_FP64] = {"double", "", ""},        [PARAM_LIST] = {"int64_t", "[8]", ""},
        [PARAM_GRID] = {"int64_t", "[8][8]", ""},
    };

    buffer_printf(text,
                  "\n/* The same on all ranks. Entries of arrays beyond W (or the number that "
                  "the comment\n * names) are 0. */\nstruct pkb_params {\n");
    for (int i = 0; i < PARAMS_MAX && task->params[i].name != NULL; i++) {
        const struct param *param = &task->params[i];
        buffer_printf(text, "    %s %s%s; /* %s%s */\n", forms[param->type].type, param->name,
                      forms[param->type].extent, forms[param->type].note, param->meaning);
    }
    buffer_printf(text, "};\n");
}

/* The number of entries in the list that starts at `first`; 1 if it is not a list. */
static int list_length(const struct tensor_spec *specs, int count, int first)
{
    int length = 1;

    while (first + length < count && specs[first + length].list_index > 0) {
        length++;
    }
    return length;
}

static void write_rule(const struct output_rule *rule, struct buffer *text)
{
    static const char *const ranks[] = {
        [RANKS_OWN] = "",
        [RANKS_SAME] = "; equal bits on all ranks",
        [RANKS_SAME_GROUP] = "; equal bits within a group",
        [RANKS_ROOT] = "; one rank only, NULL on the others",
    };
    static const char *const tails[] = {
        [TAIL_NONE] = "",
        [TAIL_ANY] = "; what lies past the valid part is not looked at",
        [TAIL_UNTOUCHED] = "; what lies past the valid part must stay untouched",
    };

    buffer_printf(text, "%s%s", ranks[rule->ranks], tails[rule->tail]);
}

static void write_tensors(const struct tensor_spec *specs, int count,
                          const struct output_rule *rules, struct buffer *text)
{
    for (int i = 0; i < count; i += list_length(specs, count, i)) {
        const struct tensor_spec *spec = &specs[i];
        const char *type = spec->is_working ? "pkb_t" : type_names[spec->dtype];
        const char *note = spec->is_working ? NULL : type_notes[spec->dtype];
        int length = list_length(specs, count, i);
        buffer_printf(text, "    %s%s *%s", rules == NULL ? "const " : "", type, spec->name);
        if (length > 1) {
            buffer_printf(text, "[%d]", length);
        }
        buffer_printf(text, "; /* %s", spec->is_working ? "T" : dtype_name(spec->dtype));
        for (int k = 0; k < length; k++) {
            buffer_printf(text, "%s %s", k > 0 ? "," : "", spec[k].text);
        }
        buffer_printf(text, "%s", note != NULL ? note : "");
        if (rules != NULL) {
            write_rule(&rules[i], text);
        }
        buffer_printf(text, " */\n");
    }
}

void task_header_write(const struct task *task, enum dtype dtype, struct buffer *text)
{
    struct error err = {0};
    struct run *run = NULL;
    struct run_choice choice = {.world = 1, .dtype = dtype};

    while (!task_case_allows_world(task, 0, choice.world)) {
        choice.world++;
    }
    enum status status = run_open(&run, task, &choice, &err);
    assert(status == OK);

    const struct plan *plan = run_plan(run, 0);
    buffer_printf(text, preamble, task->number, task->name, dtype_name(dtype), task->summary,
                  task_worlds_text(task));
    buffer_printf(text, "%s", small_types);
    buffer_printf(text,
                  "/* The working dtype, T: one of PKB_DTYPE_BF16, _FP16, _FP32 is defined. Its "
                  "names in NCCL and\n"
                  " * cuBLAS are PKB_NCCL_T and PKB_CUDA_T. */\n%s",
                  working_types[dtype]);
    write_params_struct(task, text);
    buffer_printf(text, "\n/* Device memory, read-only, row-major and dense; NULL where a rank has "
                        "no such tensor. */\nstruct pkb_inputs {\n");
    write_tensors(plan->inputs, plan->input_count, NULL, text);
    buffer_printf(text, "};\n\n/* Device memory that holds garbage before each call. */\n"
                        "struct pkb_outputs {\n");
    write_tensors(plan->outputs, plan->output_count, task->outputs, text);
    buffer_printf(text, "};\n");
    run_close(run);
}

const char *task_solution_header(void)
{
    return solution_header;
}
