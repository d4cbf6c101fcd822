// Sum of two blocks' elements, step 5: a block size known to the compiler, the tree written out.  Block 256.
template <unsigned blockSize> __global__ void reduction_5(const float *in, float *out, unsigned n) {
    __shared__ float sdata[blockSize];
    unsigned tid = threadIdx.x;
    unsigned i = blockIdx.x * (blockSize * 2) + threadIdx.x;
    float mine = (i < n) ? in[i] : 0;
    if (i + blockSize < n)
        mine += in[i + blockSize];
    sdata[tid] = mine;
    __syncthreads();
    if ((blockSize >= 512) && (tid < 256)) {
        sdata[tid] = mine = mine + sdata[tid + 256];
    }
    __syncthreads();
    if ((blockSize >= 256) && (tid < 128)) {
        sdata[tid] = mine = mine + sdata[tid + 128];
    }
    __syncthreads();
    if ((blockSize >= 128) && (tid < 64)) {
        sdata[tid] = mine = mine + sdata[tid + 64];
    }
    __syncthreads();
    if (tid < 32) {
        if (blockSize >= 64)
            mine += sdata[tid + 32];
        for (int offset = 16; offset > 0; offset /= 2)
            mine += __shfl_down_sync(0xffffffff, mine, offset);
    }
    if (tid == 0)
        out[blockIdx.x] = mine;
}

template __global__ void reduction_5<256>(const float *, float *, unsigned);
