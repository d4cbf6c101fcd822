// Softmax of rows, a block per row: maximum, sum and quotient, four elements at a time.  Block 256.
#include <cuda_runtime.h>

__device__ __forceinline__ float warp_max(float v) {
    for (int mask = 16; mask > 0; mask >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, mask));
    return v;
}

__device__ __forceinline__ float warp_sum(float v) {
    for (int mask = 16; mask > 0; mask >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, mask);
    return v;
}

__global__ void softmax(float *out, const float *in, int cols) {
    __shared__ float maxima[8], sums[8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const float4 *row = reinterpret_cast<const float4 *>(in + static_cast<size_t>(blockIdx.x) * cols);
    float4 *result = reinterpret_cast<float4 *>(out + static_cast<size_t>(blockIdx.x) * cols);
    float top = -INFINITY;
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
        float4 v = row[i];
        top = fmaxf(top, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    top = warp_max(top);
    if (lane == 0)
        maxima[warp] = top;
    __syncthreads();
    top = warp_max(maxima[lane & 7]);
    float sum = 0;
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
        const float4 v = __ldg(row + i);
        sum += __expf(v.x - top) + __expf(v.y - top) + __expf(v.z - top) + __expf(v.w - top);
    }
    sum = warp_sum(sum);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    sum = warp_sum(lane < 8 ? sums[lane] : 0.f);
    const float scale = 1.f / sum;
    for (int i = threadIdx.x; i < cols / 4; i += blockDim.x) {
        float4 v = row[i];
        v.x = __expf(v.x - top) * scale;
        v.y = __expf(v.y - top) * scale;
        v.z = __expf(v.z - top) * scale;
        v.w = __expf(v.w - top) * scale;
        result[i] = v;
    }
}
