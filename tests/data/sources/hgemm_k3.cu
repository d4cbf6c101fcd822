// HGEMM, kernel 3: the shared tiles of kernel 2 swizzled, so that ldmatrix reads eight different bank groups.
// Block tile 256 x 128 x 64, warp tile 64 x 64, block (64, 4), grid (N / BN, M / BM).
#include <cuda_fp16.h>

constexpr unsigned MMA_M = 16, MMA_N = 8, MMA_K = 8;

// XOR of the row's low three bits into the place of the 16-byte vector in its row, in halves: a row has COLS.
template <unsigned COLS> __device__ __forceinline__ unsigned swizzle(unsigned index) {
    constexpr unsigned SHIFT = COLS == 64 ? 3 : COLS == 128 ? 4 : 5;
    constexpr unsigned MASK = 0b111 << (3 + SHIFT);
    return index ^ ((index & MASK) >> SHIFT);
}

template <unsigned ROWS, unsigned COLS, unsigned THREADS>
__device__ __forceinline__ void tile_copy(const half *src, half *dst, const unsigned src_stride) {
    // In vectors of 16 bytes, eight halves.
    const float4 *src4 = reinterpret_cast<const float4 *>(src);
    float4 *dst4 = reinterpret_cast<float4 *>(dst);
    const unsigned src_stride4 = src_stride / 8;
    constexpr unsigned COLS4 = COLS / 8;
    constexpr unsigned ROW_STEP = THREADS / COLS4;
    constexpr unsigned STEPS = ROWS / ROW_STEP;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    unsigned row = thread / COLS4;
    const unsigned col = thread % COLS4;
#pragma unroll
    for (unsigned i = 0; i < STEPS; ++i) {
        dst4[swizzle<COLS>((row * COLS4 + col) * 8) / 8] = src4[row * src_stride4 + col];
        row += ROW_STEP;
    }
}

template <unsigned COLS>
__device__ __forceinline__ void ldmatrix_m16n8(const half *smem, half (&reg)[4], const unsigned row,
                                               const unsigned col) {
    unsigned(&r)[2] = reinterpret_cast<unsigned(&)[2]>(reg);
    const unsigned index = swizzle<COLS>((row + threadIdx.x % 16) * COLS + col);
    const unsigned address = __cvta_generic_to_shared(smem + index);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(address));
}

template <unsigned COLS>
__device__ __forceinline__ void ldmatrix_n8k8(const half *smem, half (&reg)[2], const unsigned row,
                                              const unsigned col) {
    unsigned &r = reinterpret_cast<unsigned &>(reg);
    const unsigned index = swizzle<COLS>((row + threadIdx.x % 8) * COLS + col);
    const unsigned address = __cvta_generic_to_shared(smem + index);
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address));
}

__device__ __forceinline__ void mma_m16n8k8(half (&d)[4], half (&a)[4], half (&b)[2]) {
    unsigned(&rd)[2] = reinterpret_cast<unsigned(&)[2]>(d);
    unsigned(&ra)[2] = reinterpret_cast<unsigned(&)[2]>(a);
    unsigned &rb = reinterpret_cast<unsigned &>(b);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%0, %1};"
                 : "+r"(rd[0]), "+r"(rd[1])
                 : "r"(ra[0]), "r"(ra[1]), "r"(rb));
}

__device__ __forceinline__ void load_m16n8(const half *src, half (&reg)[4], const unsigned stride) {
    const unsigned lane = threadIdx.x % 32;
    unsigned(&r)[2] = reinterpret_cast<unsigned(&)[2]>(reg);
    src += lane / 4 * stride + lane % 4 * 2;
    r[0] = *reinterpret_cast<const unsigned *>(src);
    src += 8 * stride;
    r[1] = *reinterpret_cast<const unsigned *>(src);
}

__device__ __forceinline__ void store_m16n8(half *dst, half (&reg)[4], const unsigned stride) {
    const unsigned lane = threadIdx.x % 32;
    unsigned(&r)[2] = reinterpret_cast<unsigned(&)[2]>(reg);
    dst += lane / 4 * stride + lane % 4 * 2;
    *reinterpret_cast<unsigned *>(dst) = r[0];
    dst += 8 * stride;
    *reinterpret_cast<unsigned *>(dst) = r[1];
}

template <unsigned BM, unsigned BN, unsigned BK, unsigned WM, unsigned WN, unsigned THREADS>
__global__ void hgemm_k3(const half *A, const half *B, const half *C, half *D, const float alpha, const float beta,
                         const unsigned M, const unsigned N, const unsigned K) {
    constexpr unsigned TILES_M = WM / MMA_M, TILES_N = WN / MMA_N, TILES_K = BK / MMA_K;
    const unsigned warp_m = threadIdx.y, warp_n = threadIdx.x / 32;
    __shared__ __align__(128) half sA[BM * BK];
    __shared__ __align__(128) half sB[BK * BN];
    half acc[TILES_M][TILES_N][4] = {};
    half a[4], b[TILES_N][2];
    const half *block_a = A + blockIdx.y * BM * K;
    const half *block_b = B + blockIdx.x * BN;
    for (unsigned k0 = 0; k0 < K; k0 += BK) {
        tile_copy<BM, BK, THREADS>(block_a, sA, K);
        tile_copy<BK, BN, THREADS>(block_b, sB, N);
        block_a += BK;
        block_b += BK * N;
        __syncthreads();
        for (unsigned k = 0; k < TILES_K; ++k) {
#pragma unroll
            for (unsigned n = 0; n < TILES_N; ++n)
                ldmatrix_n8k8<BN>(sB, b[n], k * MMA_K, warp_n * WN + n * MMA_N);
#pragma unroll
            for (unsigned m = 0; m < TILES_M; ++m) {
                ldmatrix_m16n8<BK>(sA, a, warp_m * WM + m * MMA_M, k * MMA_K);
#pragma unroll
                for (unsigned n = 0; n < TILES_N; ++n)
                    mma_m16n8k8(acc[m][n], a, b[n]);
            }
        }
        __syncthreads();
    }
    const half alpha_h = __float2half(alpha), beta_h = __float2half(beta);
    const unsigned corner = (blockIdx.y * BM + warp_m * WM) * N + blockIdx.x * BN + warp_n * WN;
    for (unsigned m = 0; m < TILES_M; ++m) {
        for (unsigned n = 0; n < TILES_N; ++n) {
            half c[4];
            load_m16n8(C + corner + m * MMA_M * N + n * MMA_N, c, N);
            for (unsigned i = 0; i < 4; ++i)
                c[i] = __hadd(__hmul(alpha_h, acc[m][n][i]), __hmul(beta_h, c[i]));
            store_m16n8(D + corner + m * MMA_M * N + n * MMA_N, c, N);
        }
    }
}

template __global__ void hgemm_k3<256, 128, 64, 64, 64, 256>(const half *, const half *, const half *, half *, float, float,
                                                        unsigned, unsigned, unsigned);
