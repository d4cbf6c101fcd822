// Sort of 1024 keys with values by compare and exchange, two elements per thread.  Block 512.
#define LIMIT 1024U

__device__ inline void compare_exchange(unsigned &key_a, unsigned &val_a, unsigned &key_b, unsigned &val_b,
                                        unsigned direction) {
    if ((key_a > key_b) == direction) {
        unsigned t = key_a;
        key_a = key_b;
        key_b = t;
        t = val_a;
        val_a = val_b;
        val_b = t;
    }
}

__global__ void bitonic_sort(unsigned *dst_key, unsigned *dst_val, const unsigned *src_key, const unsigned *src_val,
                             unsigned length, unsigned direction) {
    __shared__ unsigned s_key[LIMIT];
    __shared__ unsigned s_val[LIMIT];
    s_key[threadIdx.x] = src_key[blockIdx.x * LIMIT + threadIdx.x];
    s_val[threadIdx.x] = src_val[blockIdx.x * LIMIT + threadIdx.x];
    s_key[threadIdx.x + LIMIT / 2] = src_key[blockIdx.x * LIMIT + threadIdx.x + LIMIT / 2];
    s_val[threadIdx.x + LIMIT / 2] = src_val[blockIdx.x * LIMIT + threadIdx.x + LIMIT / 2];
    for (unsigned size = 2; size < length; size <<= 1) {
        unsigned ddd = direction ^ ((threadIdx.x & (size / 2)) != 0);
        for (unsigned stride = size / 2; stride > 0; stride >>= 1) {
            __syncthreads();
            unsigned pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            compare_exchange(s_key[pos + 0], s_val[pos + 0], s_key[pos + stride], s_val[pos + stride], ddd);
        }
    }
    for (unsigned stride = length / 2; stride > 0; stride >>= 1) {
        __syncthreads();
        unsigned pos = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
        compare_exchange(s_key[pos + 0], s_val[pos + 0], s_key[pos + stride], s_val[pos + stride], direction);
    }
    __syncthreads();
    dst_key[blockIdx.x * LIMIT + threadIdx.x] = s_key[threadIdx.x];
    dst_val[blockIdx.x * LIMIT + threadIdx.x] = s_val[threadIdx.x];
    dst_key[blockIdx.x * LIMIT + threadIdx.x + LIMIT / 2] = s_key[threadIdx.x + LIMIT / 2];
    dst_val[blockIdx.x * LIMIT + threadIdx.x + LIMIT / 2] = s_val[threadIdx.x + LIMIT / 2];
}
