#define HOSTILE_KERNEL much_local
static __global__ void much_local(void *memory)
{
    asm volatile("{\n.local .b8 much[500000];\n.reg .b64 p;\nmov.u64 p, much;\n"
                 "st.local.u64 [p], %0;\n}\n" ::"l"(memory));
}
