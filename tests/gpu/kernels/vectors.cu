/* Vector loads and stores of every width, unaligned rests, structures by value, local arrays. */
#include "../differential.cuh"

struct parameters {
    const uint4 *wide;
    const uint2 *pair;
    const uchar4 *bytes;
    int offset[5];
    double scale;
    char last;
};

__global__ void vectors(parameters p, uint4 *a, ushort4 *b, double2 *d, int *local)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 w = p.wide[i];
    uint2 q = p.pair[i];
    uchar4 c = p.bytes[i];
    a[i] = make_uint4(w.w + q.x, w.z ^ q.y, w.y - c.x, w.x * p.offset[c.y % 5]);
    b[i] = make_ushort4((unsigned short)c.w, (unsigned short)w.x, (unsigned short)(q.x >> 9),
                        (unsigned short)p.last);
    d[i] = make_double2((double)w.x * p.scale, (double)c.z);
    int table[16];
    for (int k = 0; k < 16; k++) {
        table[(k * 5 + i) % 16] = k * (int)c.x;
    }
    int sum = 0;
    for (int k = 0; k < 16; k++) {
        sum = sum * 3 + table[(k + (int)c.y) % 16];
    }
    local[i] = sum;
}

static void test(void)
{
    array<uint32_t> wide(256 * 4), pair(256 * 2);
    array<uint8_t> bytes(256 * 4);
    array<uint32_t> a(256 * 4);
    array<uint16_t> b(256 * 4);
    array<double> d(256 * 2);
    array<int> local(256);
    wide.fill(random_word);
    pair.fill(random_word);
    bytes.fill(random_word);
    parameters p = {(uint4 *)wide.device,
                    (uint2 *)pair.device,
                    (uchar4 *)bytes.device,
                    {3, -1, 7, 100, 65537},
                    0.125,
                    'x'};
    vectors<<<2, 128>>>(p, (uint4 *)a.device, (ushort4 *)b.device, (double2 *)d.device,
                        local.device);
    synchronise();
    emit_exact("a", a);
    emit_exact("b", b);
    emit_exact("d", d);
    emit_exact("local", local);
}
