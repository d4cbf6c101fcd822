// A 32 x 32 transpose inside of each warp by shuffles: no shared memory, whole rows on both sides.  Block 64.
__global__ void warp_transpose(float *out, const float *in) {
    const int lane = threadIdx.x & 31;
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    float v[32];
    const float *tile = in + warp * 1024;
#pragma unroll
    for (int r = 0; r < 32; ++r)
        v[r] = tile[r * 32 + lane];
#pragma unroll
    for (int mask = 1; mask < 32; mask <<= 1) {
#pragma unroll
        for (int r = 0; r < 32; ++r) {
            if (!(r & mask)) {
                const bool upper = lane & mask;
                float send = upper ? v[r] : v[r | mask];
                float got = __shfl_xor_sync(0xffffffff, send, mask);
                if (upper)
                    v[r] = got;
                else
                    v[r | mask] = got;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 32; ++r)
        out[warp * 1024 + r * 32 + lane] = v[r];
}
