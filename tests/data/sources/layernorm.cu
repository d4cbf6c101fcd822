// Layer norm of rows in f16, a warp per row, eight halves per lane.  Block (32, 4).
#include <cuda_fp16.h>

union Vec8 {
    uint4 bits;
    half values[8];
};

template <int COLS>
__global__ void layernorm(half *y, const half *x, const half *gamma, const half *beta, int rows, float eps) {
    constexpr int STEPS = COLS / 256;
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows)
        return;
    float v[STEPS * 8];
    float sum = 0.f, squares = 0.f;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        Vec8 in;
        in.bits = *reinterpret_cast<const uint4 *>(x + row * COLS + s * 256 + threadIdx.x * 8);
        for (int i = 0; i < 8; ++i) {
            v[s * 8 + i] = __half2float(in.values[i]);
            sum += v[s * 8 + i];
        }
    }
    for (int mask = 16; mask; mask >>= 1)
        sum += __shfl_xor_sync(~0u, sum, mask);
    const float mean = sum / COLS;
    for (int i = 0; i < STEPS * 8; ++i)
        squares += (v[i] - mean) * (v[i] - mean);
    for (int mask = 16; mask; mask >>= 1)
        squares += __shfl_xor_sync(~0u, squares, mask);
    const float scale = rsqrtf(squares / COLS + eps);
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        const int col = s * 256 + threadIdx.x * 8;
        Vec8 g, b, r;
        g.bits = *reinterpret_cast<const uint4 *>(gamma + col);
        b.bits = *reinterpret_cast<const uint4 *>(beta + col);
        for (int i = 0; i < 8; ++i)
            r.values[i] = __float2half((v[s * 8 + i] - mean) * scale * __half2float(g.values[i]) +
                                       __half2float(b.values[i]));
        *reinterpret_cast<uint4 *>(y + row * COLS + col) = r.bits;
    }
}

template __global__ void layernorm<1024>(half *, const half *, const half *, const half *, int, float);
