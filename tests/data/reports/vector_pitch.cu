// Rows of 32 float4, read down a column: eight lanes of a phase fall into the same four banks.
// Then a pitch of 40 floats (two rows apart in banks), bytes at odd strides, and counters hit by atomics.
#include <cuda_runtime.h>
#include <cstdio>

__global__ void vector_pitch(float *out, const float *in, int rounds) {
    __shared__ float tile[32][32];
    __shared__ float wide[32][40];
    __shared__ unsigned counts[64];
    const int lane = threadIdx.x;
    if (lane < 64)
        counts[lane] = 0;
    for (int i = lane; i < 32 * 32; i += blockDim.x) {
        tile[i / 32][i % 32] = in[i];
        wide[i / 32][i % 32] = in[i];
    }
    __syncthreads();
    float4 sum = make_float4(0, 0, 0, 0);
    for (int r = 0; r < rounds; ++r) {
        int column = 4 * ((r + lane / 32) % 8);
        float4 a = *reinterpret_cast<const float4 *>(&tile[lane % 32][column]);
        float4 b = *reinterpret_cast<const float4 *>(&wide[lane % 32][column]);
        sum.x += a.x * b.x;
        sum.y += a.y * b.y;
        sum.z += a.z * b.z;
        sum.w += a.w * b.w;
    }
    atomicAdd(&counts[(lane / 8) * 4 % 64], 1u);
    __syncthreads();
    reinterpret_cast<float4 *>(out)[lane] = sum;
    out[4 * blockDim.x + 3 * lane] = static_cast<float>(counts[lane % 64]);
}

int main() {
    float *in, *out;
    cudaMalloc(&in, 32 * 32 * sizeof(float));
    cudaMalloc(&out, 7 * 128 * sizeof(float));
    cudaMemset(in, 0, 32 * 32 * sizeof(float));
    vector_pitch<<<1, 128>>>(out, in, 8);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
