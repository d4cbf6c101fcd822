// HGEMM, kernel 6: two buffers in shared memory, one barrier per tile instead of two.  Otherwise as kernel 5.
// Dynamic shared memory: 2 * (BM * BK + BK * BN) halves.
#include <cuda_fp16.h>

constexpr unsigned MMA_M = 16, MMA_N = 8;

// Rows of 32 halves, 64 bytes: two bits of the row go into the place of the vector.
__device__ __forceinline__ unsigned swizzle_a(unsigned index) { return index ^ ((index & 0b11000000) >> 3); }
// Rows of 256 halves, 512 bytes: three bits.
__device__ __forceinline__ unsigned swizzle_b(unsigned index) { return index ^ ((index & 0b11100000000) >> 5); }

__device__ __forceinline__ void ldmatrix_x4(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&r)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// The fragments of a warp: WM x 32 of A, by 16 x 16; one address, a constant per row of tiles, an XOR per 16 columns.
template <unsigned TILES_M, unsigned BK>
__device__ __forceinline__ void load_a(const half *tile, unsigned (&reg)[TILES_M][2][4]) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned index = swizzle_a(lane % 16 * BK + lane / 16 * 8);
    const unsigned address = __cvta_generic_to_shared(tile + index);
#pragma unroll
    for (unsigned m = 0; m < TILES_M; ++m) {
        ldmatrix_x4(reg[m][0], address + m * 16 * BK * 2);
        ldmatrix_x4(reg[m][1], (address ^ 0b100000) + m * 16 * BK * 2);
    }
}

// 32 x WN of B: 32 rows of 8 columns at once.
template <unsigned TILES_N, unsigned BN>
__device__ __forceinline__ void load_b(const half *tile, unsigned (&reg)[TILES_N][4]) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned address = __cvta_generic_to_shared(tile + swizzle_b(lane * BN));
#pragma unroll
    for (unsigned n = 0; n < TILES_N; ++n)
        ldmatrix_x4_trans(reg[n], address ^ (n << 4));
}

__device__ __forceinline__ void mma_m16n8k8(unsigned (&d)[2], unsigned a0, unsigned a1, unsigned b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a0), "r"(a1), "r"(b));
}

template <unsigned ROWS, unsigned COLS, unsigned THREADS, unsigned STEPS>
__device__ __forceinline__ void tile_load(const half *src, float4 (&reg)[STEPS], const unsigned src_stride) {
    const float4 *src4 = reinterpret_cast<const float4 *>(src);
    const unsigned src_stride4 = src_stride / 8;
    constexpr unsigned COLS4 = COLS / 8;
    constexpr unsigned ROW_STEP = THREADS / COLS4;
    static_assert(STEPS * ROW_STEP == ROWS, "registers for the whole tile");
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    unsigned row = thread / COLS4;
    const unsigned col = thread % COLS4;
#pragma unroll
    for (unsigned i = 0; i < STEPS; ++i) {
        reg[i] = src4[row * src_stride4 + col];
        row += ROW_STEP;
    }
}

template <unsigned ROWS, unsigned COLS, unsigned THREADS, unsigned STEPS>
__device__ __forceinline__ void tile_store(const float4 (&reg)[STEPS], half *dst) {
    float4 *dst4 = reinterpret_cast<float4 *>(dst);
    constexpr unsigned COLS4 = COLS / 8;
    constexpr unsigned ROW_STEP = THREADS / COLS4;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    unsigned row = thread / COLS4;
    const unsigned col = thread % COLS4;
#pragma unroll
    for (unsigned i = 0; i < STEPS; ++i) {
        dst4[(COLS == 32 ? swizzle_a((row * COLS4 + col) * 8) : swizzle_b((row * COLS4 + col) * 8)) / 8] = reg[i];
        row += ROW_STEP;
    }
}

__device__ __forceinline__ void finish(const half *src, half *dst, unsigned (&acc)[2], const half2 alpha,
                                       const half2 beta, const unsigned stride) {
    const unsigned lane = threadIdx.x % 32;
    const unsigned corner = lane / 4 * stride + lane % 4 * 2;
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
        const half2 c = *reinterpret_cast<const half2 *>(&src[corner + i * 8 * stride]);
        const half2 sum = reinterpret_cast<half2 &>(acc[i]);
        *reinterpret_cast<half2 *>(&dst[corner + i * 8 * stride]) = __hfma2(alpha, sum, __hmul2(beta, c));
    }
}

template <unsigned BM, unsigned BN, unsigned BK, unsigned WM, unsigned WN, unsigned THREADS>
__global__ void hgemm_k6(const half *A, const half *B, const half *C, half *D, const float alpha, const float beta,
                         const unsigned M, const unsigned N, const unsigned K) {
    constexpr unsigned TILES_M = WM / MMA_M, TILES_N = WN / MMA_N;
    static_assert(BK == 32 && BN == 256, "the swizzles are for rows of 64 and 512 bytes");
    const unsigned warp_m = threadIdx.y, warp_n = threadIdx.x / 32;
    constexpr unsigned BUFFER = BM * BK + BK * BN;
    extern __shared__ __align__(1024) half smem[];
    half *sA = smem;
    half *sB = &smem[BM * BK];
    int offset = BUFFER;
    unsigned acc[TILES_M][TILES_N][2] = {};
    unsigned a[TILES_M][2][4], b[TILES_N][4];
    const half *block_a = A + blockIdx.y * BM * K;
    const half *block_b = B + blockIdx.x * BN;
    float4 next_a[BM * BK / 8 / THREADS], next_b[BK * BN / 8 / THREADS];
    tile_load<BM, BK, THREADS>(block_a, next_a, K);
    tile_load<BK, BN, THREADS>(block_b, next_b, N);
    tile_store<BM, BK, THREADS>(next_a, sA);
    tile_store<BK, BN, THREADS>(next_b, sB);
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
        __syncthreads();
        if (k0 + BK < K) {
            block_a += BK;
            block_b += BK * N;
            tile_load<BM, BK, THREADS>(block_a, next_a, K);
            tile_load<BK, BN, THREADS>(block_b, next_b, N);
        }
        load_a<TILES_M, BK>(sA + warp_m * WM * BK, a);
        load_b<TILES_N, BN>(sB + warp_n * WN, b);
#pragma unroll
        for (unsigned k = 0; k < 4; ++k)
#pragma unroll
            for (unsigned m = 0; m < TILES_M; ++m)
#pragma unroll
                for (unsigned n = 0; n < TILES_N; ++n)
                    mma_m16n8k8(acc[m][n], a[m][k / 2][k % 2 * 2], a[m][k / 2][k % 2 * 2 + 1], b[n][k]);
        if (k0 + BK < K) {
            sA = sA + offset;
            sB = sB + offset;
            offset = -offset;
            tile_store<BM, BK, THREADS>(next_a, sA);
            tile_store<BK, BN, THREADS>(next_b, sB);
        }
    }
    const half2 alpha2 = __float2half2_rn(alpha), beta2 = __float2half2_rn(beta);
    const unsigned corner = (blockIdx.y * BM + warp_m * WM) * N + blockIdx.x * BN + warp_n * WN;
#pragma unroll
    for (unsigned m = 0; m < TILES_M; ++m)
#pragma unroll
        for (unsigned n = 0; n < TILES_N; ++n) {
            const unsigned tile = corner + m * MMA_M * N + n * MMA_N;
            finish(C + tile, D + tile, acc[m][n], alpha2, beta2, N);
        }
}

template __global__ void hgemm_k6<256, 256, 32, 64, 128, 256>(const half *, const half *, const half *, half *, float,
                                                              float, unsigned, unsigned, unsigned);
