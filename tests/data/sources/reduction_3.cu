// Sum of two blocks' elements, step 3: the first addition is made while loading.  Block 256.
__global__ void reduction_3(const float *in, float *out, unsigned n) {
    extern __shared__ float sdata[];
    unsigned tid = threadIdx.x;
    unsigned i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    float mine = (i < n) ? in[i] : 0;
    if (i + blockDim.x < n)
        mine += in[i + blockDim.x];
    sdata[tid] = mine;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s)
            sdata[tid] = mine = mine + sdata[tid + s];
        __syncthreads();
    }
    if (tid == 0)
        out[blockIdx.x] = mine;
}
