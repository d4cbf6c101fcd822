// Sum of two blocks' elements, step 4: the last warp goes on by shuffles, without barriers.  Block 256.
__global__ void reduction_4(const float *in, float *out, unsigned n) {
    extern __shared__ float sdata[];
    unsigned tid = threadIdx.x;
    unsigned i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    float mine = (i < n) ? in[i] : 0;
    if (i + blockDim.x < n)
        mine += in[i + blockDim.x];
    sdata[tid] = mine;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s)
            sdata[tid] = mine = mine + sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) {
        mine += sdata[tid + 32];
        for (int offset = 16; offset > 0; offset /= 2)
            mine += __shfl_down_sync(0xffffffff, mine, offset);
    }
    if (tid == 0)
        out[blockIdx.x] = mine;
}
