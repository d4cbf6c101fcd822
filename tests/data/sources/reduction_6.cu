// Sum of an array, step 6: every thread adds many elements first, a grid apart.  Block 256, 64 blocks.
template <unsigned blockSize, bool isPow2>
__global__ void reduction_6(const float *__restrict__ in, float *__restrict__ out, unsigned n) {
    __shared__ float sdata[blockSize];
    unsigned tid = threadIdx.x;
    unsigned gridSize = blockSize * 2 * gridDim.x;
    float mine = 0;
    for (unsigned i = blockIdx.x * blockSize * 2 + threadIdx.x; i < n; i += gridSize) {
        mine += in[i];
        if (isPow2 || i + blockSize < n)
            mine += in[i + blockSize];
    }
    sdata[tid] = mine;
    __syncthreads();
#pragma unroll
    for (unsigned s = blockSize / 2; s > 32; s >>= 1) {
        if (tid < s)
            sdata[tid] = mine = mine + sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) {
        mine += sdata[tid + 32];
        for (int offset = 16; offset > 0; offset >>= 1)
            mine += __shfl_xor_sync(0xffffffff, mine, offset);
        if (tid == 0)
            out[blockIdx.x] = mine;
    }
}

template __global__ void reduction_6<256, true>(const float *, float *, unsigned);
