// 16x16 pieces of a 64x64 half tile by ldmatrix, from rows of 128 bytes: as they lie, and swizzled.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const half *p) {
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], const half *p) {
    uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(p));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address));
}

__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <bool SWIZZLED> __device__ __forceinline__ int place(int row, int column) {
    int chunk = column / 8;
    if (SWIZZLED)
        chunk ^= row % 8;
    return row * 64 + chunk * 8 + column % 8;
}

template <bool SWIZZLED> __device__ void product(float *d, const half *a, const half *b, half *sa, half *sb) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < 64 * 8; i += 128) {
        int row = i / 8, column = i % 8 * 8;
        *reinterpret_cast<float4 *>(&sa[place<SWIZZLED>(row, column)]) = reinterpret_cast<const float4 *>(a)[i];
        *reinterpret_cast<float4 *>(&sb[place<SWIZZLED>(row, column)]) = reinterpret_cast<const float4 *>(b)[i];
    }
    __syncthreads();
    float sum[4] = {0, 0, 0, 0};
    for (int k = 0; k < 64; k += 16) {
        uint32_t fa[4], fb[2];
        ldmatrix_x4(fa, &sa[place<SWIZZLED>(warp * 16 + lane % 16, k + lane / 16 * 8)]);
        ldmatrix_x2_trans(fb, &sb[place<SWIZZLED>(k + lane % 16, warp * 8)]);
        mma(sum, fa, fb);
    }
    float *row = d + (warp * 16 + lane / 4) * 8 + lane % 4 * 2;
    *reinterpret_cast<float2 *>(row) = make_float2(sum[0], sum[1]);
    *reinterpret_cast<float2 *>(row + 64) = make_float2(sum[2], sum[3]);
}

__global__ void matrix_load_plain(float *d, const half *a, const half *b) {
    __shared__ __align__(128) half sa[64 * 64];
    __shared__ __align__(128) half sb[64 * 64];
    product<false>(d, a, b, sa, sb);
}

__global__ void matrix_load_swizzled(float *d, const half *a, const half *b) {
    __shared__ __align__(128) half sa[64 * 64];
    __shared__ __align__(128) half sb[64 * 64];
    product<true>(d, a, b, sa, sb);
}

int main() {
    float *d;
    half *a, *b;
    cudaMalloc(&d, 64 * 8 * sizeof(float));
    cudaMalloc(&a, 64 * 64 * sizeof(half));
    cudaMalloc(&b, 64 * 64 * sizeof(half));
    cudaMemset(a, 0, 64 * 64 * sizeof(half));
    cudaMemset(b, 0, 64 * 64 * sizeof(half));
    matrix_load_plain<<<1, 128>>>(d, a, b);
    matrix_load_swizzled<<<1, 128>>>(d, a, b);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return 0;
}
