// Fragments of A and B for mma.m16n8k16 by ldmatrix from padded rows of 72 halves.  Block 32.
#include <cuda_fp16.h>
#include <cstdint>

#define LDMATRIX_X4(R0, R1, R2, R3, addr)                                                                        \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n"                            \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3)                                                        \
                 : "r"(addr))
#define LDMATRIX_X2_T(R0, R1, addr)                                                                              \
    asm volatile("ldmatrix.sync.aligned.x2.trans.m8n8.shared.b16 {%0, %1}, [%2];\n"                              \
                 : "=r"(R0), "=r"(R1)                                                                            \
                 : "r"(addr))
#define PITCH 72

__global__ void fragment_load(float *d, const half *a, const half *b) {
    __shared__ __align__(16) half s_a[16][PITCH];
    __shared__ __align__(16) half s_b[64][8 + 8];
    const int lane = threadIdx.x;
    for (int i = 0; i < 4; ++i)
        *(int4 *)&s_a[i * 4 + lane / 8][lane % 8 * 8] = ((const int4 *)a)[i * 32 + lane];
    for (int i = 0; i < 2; ++i)
        *reinterpret_cast<int4 *>(&s_b[i * 32 + lane][0]) = reinterpret_cast<const int4 *>(b)[i * 32 + lane];
    __syncwarp();
    float c[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k = 0; k < 64; k += 16) {
        uint32_t ra[4], rb[2];
        uint32_t at_a = __cvta_generic_to_shared(&s_a[lane % 16][k + (lane / 16) * 8]);
        uint32_t at_b = __cvta_generic_to_shared(&s_b[k + lane % 16][0]);
        LDMATRIX_X4(ra[0], ra[1], ra[2], ra[3], at_a);
        LDMATRIX_X2_T(rb[0], rb[1], at_b);
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    }
    *(float2 *)&d[lane / 4 * 8 + lane % 4 * 2] = make_float2(c[0], c[1]);
    *(float2 *)&d[(lane / 4 + 8) * 8 + lane % 4 * 2] = make_float2(c[2], c[3]);
}
