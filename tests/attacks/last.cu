/* ---- the submission around them ---- */

/* All that are to be refused, one after the other: 1 where any of them worked. */
static int attempt_every(void)
{
    int worked = 0;

    for (const struct act *act = acts; act != NULL; act = act->next) {
        if (!act->is_last && act->run() != 0) {
            printf("worked: %s\n", act->name);
            worked = 1;
        }
    }
    return worked;
}

static int attempt(void)
{
    size_t length = strcspn((const char *)chosen, " ");

    for (const struct act *act = acts; act != NULL; act = act->next) {
        if (strlen(act->name) == length && strncmp(act->name, (const char *)chosen, length) == 0) {
            return act->run();
        }
    }
    return strncmp((const char *)chosen, "every ", 6) == 0 ? attempt_every() : -1;
}

/* ---- at dlopen: the loader asks a resolver first, then constructors run ---- */

static int resolved = 0;

static int nothing(void)
{
    return 0;
}

extern "C" int (*resolve_nothing(void))(void)
{
    static const char name[] = "process_in_resolver";

    if (strncmp((const char *)chosen, name, sizeof name - 1) == 0) {
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0) {
            syscall(SYS_exit_group, 0);
        }
        resolved = child > 0;
        if (child > 0) {
            syscall(SYS_wait4, child, NULL, 0, NULL);
        }
    }
    return nothing;
}

extern "C" int ifunc_nothing(void) __attribute__((ifunc("resolve_nothing")));

LAST_ACT(process_in_resolver)
{
    return ifunc_nothing() + resolved;
}

static int act_early(void)
{
    return strncmp((const char *)chosen, "process_in_constructor", 22) == 0 ? act_make_process()
                                                                            : 0;
}

static const int early = act_early();

LAST_ACT(process_in_constructor)
{
    return early;
}

/* For the driver, outside: 1 worked, 0 refused, -1 there is no such act. */
extern "C" __attribute__((visibility("default"))) int attack(void)
{
    return attempt();
}

/* 40 worked, 41 refused; without an act, an honest all-reduce. */
int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)ctx, (void)params;
    return chosen[0] == 0 ? 0 : 41 - attempt();
}

static __global__ void meet(struct pkb_symm signal, int rank, uint32_t count)
{
    uint32_t *theirs = (uint32_t *)signal.peer[threadIdx.x] + rank;
    uint32_t *mine = (uint32_t *)signal.local + threadIdx.x;
    uint32_t seen;

    asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(theirs) : "memory");
    do {
        asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
    } while ((int32_t)(seen - count) < 0);
}

static __global__ void add(const pkb_t *x, pkb_t *y, int64_t n, struct pkb_ctx ctx)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;

    if (i >= n) {
        return;
    }
    for (int r = 0; r < ctx.world; r++) {
        sum +=
            (float)*(const pkb_t *)((const char *)(x + i) + (r - ctx.rank) * ctx.peer_stride_bytes);
    }
    y[i] = (pkb_t)sum;
}

static uint32_t calls;

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int64_t n = params->M * params->N;

    calls = ctx->user == NULL ? 0 : calls;
    ctx->user = &calls;
    meet<<<1, ctx->world, 0, ctx->stream>>>(ctx->signal, ctx->rank, ++calls);
    add<<<(unsigned)((n + 255) / 256), 256, 0, ctx->stream>>>(in->x, out->y, n, *ctx);
    meet<<<1, ctx->world, 0, ctx->stream>>>(ctx->signal, ctx->rank, ++calls);
    return (int)cudaGetLastError();
}
