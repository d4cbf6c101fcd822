// Rows brought by cp.async into a ring of stages, 16 bytes per thread, and read back across.  Block 128.
#include <cuda_runtime.h>
#include <cstdint>

#define CP_ASYNC_16(dst, src)                                                                                    \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(dst), "l"(src) : "memory")
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

template <int STAGES> __global__ void async_pipeline(float *out, const float *in, int tiles) {
    __shared__ __align__(16) float ring[STAGES][16][32];
    const int t = threadIdx.x;
    const int row = t / 8, col = t % 8 * 4;
    for (int s = 0; s < STAGES - 1; ++s) {
        uint32_t dst = static_cast<uint32_t>(__cvta_generic_to_shared(&ring[s][row][col]));
        CP_ASYNC_16(dst, in + (s * 16 + row) * 32 + col);
        CP_ASYNC_COMMIT();
    }
    float sum = 0;
    for (int tile = 0; tile < tiles; ++tile) {
        CP_ASYNC_WAIT(STAGES - 2);
        __syncthreads();
        const int next = tile + STAGES - 1;
        if (next < tiles) {
            uint32_t dst = static_cast<uint32_t>(__cvta_generic_to_shared(&ring[next % STAGES][row][col]));
            CP_ASYNC_16(dst, in + (next * 16 + row) * 32 + col);
        }
        CP_ASYNC_COMMIT();
        for (int k = 0; k < 4; ++k)
            sum += ring[tile % STAGES][t % 16][t / 16 + 8 * k];
    }
    out[blockIdx.x * 128 + t] = sum;
}

template __global__ void async_pipeline<4>(float *, const float *, int);
