// A transpose through shared memory: the tile's rows are read down its columns, 32 lanes in one bank.
#include <cuda_runtime.h>
#include <cstdio>

constexpr int N = 1024;

__global__ void transpose_naive(float *out, const float *in) {
    __shared__ float tile[32][32];
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

int main() {
    float *in, *out;
    cudaMalloc(&in, N * N * sizeof(float));
    cudaMalloc(&out, N * N * sizeof(float));
    cudaMemset(in, 0, N * N * sizeof(float));
    transpose_naive<<<dim3(N / 32, N / 32), dim3(32, 8)>>>(out, in);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
