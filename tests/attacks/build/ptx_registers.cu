#define HOSTILE_KERNEL many_registers
static __global__ void many_registers(void *memory)
{
    asm volatile("{\n.reg .b64 many<2000000>;\nmov.u64 many1999999, %0;\n}\n" ::"l"(memory));
}
