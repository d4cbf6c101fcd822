// Histogram of bytes, four per word: a counter array per warp, then added up.  Block 192, six warps, 256 bins.
typedef unsigned int uint;
#define BINS 256
#define WARPS 6
#define WARP_SIZE 32

inline __device__ void add_byte(uint *warp_hist, uint value) { atomicAdd(warp_hist + value, 1); }

inline __device__ void add_word(uint *warp_hist, uint data) {
    add_byte(warp_hist, (data >> 0) & 0xFFU);
    add_byte(warp_hist, (data >> 8) & 0xFFU);
    add_byte(warp_hist, (data >> 16) & 0xFFU);
    add_byte(warp_hist, (data >> 24) & 0xFFU);
}

__global__ void histogram(uint *partial, const uint *data, uint count) {
    __shared__ uint hist[WARPS * BINS];
    uint *warp_hist = hist + (threadIdx.x / WARP_SIZE) * BINS;
#pragma unroll
    for (uint i = 0; i < BINS / WARP_SIZE; i++)
        hist[threadIdx.x + i * WARPS * WARP_SIZE] = 0;
    __syncthreads();
    for (uint pos = blockIdx.x * blockDim.x + threadIdx.x; pos < count; pos += blockDim.x * gridDim.x) {
        uint word = data[pos];
        add_word(warp_hist, word);
    }
    __syncthreads();
    for (uint bin = threadIdx.x; bin < BINS; bin += WARPS * WARP_SIZE) {
        uint sum = 0;
        for (uint i = 0; i < WARPS; i++)
            sum += hist[bin + i * BINS];
        partial[blockIdx.x * BINS + bin] = sum;
    }
}
