// The same transpose three times: without shared memory, with a padded tile and with a swizzled one.
#include <cuda_runtime.h>
#include <cstdio>

constexpr int N = 256;

__global__ void transpose_direct(float *out, const float *in) {
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 8 + threadIdx.y;
    out[x * N + y] = in[y * N + x];
}

__global__ void transpose_padded(float *out, const float *in) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * N + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        out[(y + i) * N + x] = tile[threadIdx.x][threadIdx.y + i];
}

__global__ void transpose_swizzled(float *out, const float *in) {
    __shared__ float tile[32 * 32];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) {
        int row = threadIdx.y + i;
        tile[row * 32 + (threadIdx.x ^ row)] = in[(y + i) * N + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) {
        int row = threadIdx.x;
        out[(y + i) * N + x] = tile[row * 32 + ((threadIdx.y + i) ^ row)];
    }
}

int main() {
    float *in, *out;
    cudaMalloc(&in, N * N * sizeof(float));
    cudaMalloc(&out, N * N * sizeof(float));
    cudaMemset(in, 0, N * N * sizeof(float));
    transpose_direct<<<dim3(N / 32, N / 8), dim3(32, 8)>>>(out, in);
    transpose_padded<<<dim3(N / 32, N / 32), dim3(32, 8)>>>(out, in);
    transpose_swizzled<<<dim3(N / 32, N / 32), dim3(32, 8)>>>(out, in);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
