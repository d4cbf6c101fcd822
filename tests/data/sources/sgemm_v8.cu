// SGEMM, version 8: 128 x 128 x 8 tiles, an 8 x 8 micro-kernel.  Block 256, grid (M / 128, N / 128).
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
#define sA(i, j) sA[(i) + ((j) << 7)]
#define sB(i, j) sB[(i) + ((j) << 7)]
#define TILE_M 128
#define TILE_N 128
#define TILE_K 8
#define LOAD4(v, from) v = *((const float4 *)(from));
#define STORE4(to, v) *((float4 *)(to)) = v;
#define SCALE4(r, v, s)                                                                                          \
    r.x += v.x * s;                                                                                              \
    r.y += v.y * s;                                                                                              \
    r.z += v.z * s;                                                                                              \
    r.w += v.w * s;
#define AXPBY4(c, r)                                                                                             \
    c.x = alpha * r.x + beta * c.x;                                                                              \
    c.y = alpha * r.y + beta * c.y;                                                                              \
    c.z = alpha * r.z + beta * c.z;                                                                              \
    c.w = alpha * r.w + beta * c.w;

__global__ __launch_bounds__(256) void sgemm_v8(int M, int N, int K, float alpha, const float *A, const float *B,
                                                float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int t = threadIdx.x;
    int bx = blockIdx.x, by = blockIdx.y;
    int row_a = (t & 31) << 2, col_a = t >> 5;
    int row_b = (t & 1) << 2, col_b = t >> 1;
    int row_c = (t & 15) << 3, col_c = (t >> 4) << 3;
    A = &A(bx << 7, 0);
    B = &B(0, by << 7);
    C = &C(bx << 7, by << 7);
    __shared__ __align__(16) float sA[TILE_M * TILE_K];
    __shared__ __align__(16) float sB[TILE_N * TILE_K];
    float4 a_low, a_high, b_low, b_high, cv;
    float4 sum[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
        sum[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        LOAD4(a_low, &A(row_a, col_a))
        LOAD4(b_low, &B(row_b, col_b))
        STORE4(&sA(row_a, col_a), a_low)
        sB(col_b, row_b) = b_low.x;
        sB(col_b, row_b + 1) = b_low.y;
        sB(col_b, row_b + 2) = b_low.z;
        sB(col_b, row_b + 3) = b_low.w;
        A += lda << 3;
        B += TILE_K;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_K; ++k) {
            LOAD4(a_low, &sA(row_c, k))
            LOAD4(a_high, &sA(row_c + 4, k))
            LOAD4(b_low, &sB(col_c, k))
            LOAD4(b_high, &sB(col_c + 4, k))
            SCALE4(sum[0], a_low, b_low.x)
            SCALE4(sum[1], a_high, b_low.x)
            SCALE4(sum[2], a_low, b_low.y)
            SCALE4(sum[3], a_high, b_low.y)
            SCALE4(sum[4], a_low, b_low.z)
            SCALE4(sum[5], a_high, b_low.z)
            SCALE4(sum[6], a_low, b_low.w)
            SCALE4(sum[7], a_high, b_low.w)
            SCALE4(sum[8], a_low, b_high.x)
            SCALE4(sum[9], a_high, b_high.x)
            SCALE4(sum[10], a_low, b_high.y)
            SCALE4(sum[11], a_high, b_high.y)
            SCALE4(sum[12], a_low, b_high.z)
            SCALE4(sum[13], a_high, b_high.z)
            SCALE4(sum[14], a_low, b_high.w)
            SCALE4(sum[15], a_high, b_high.w)
        }
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        LOAD4(cv, &C(row_c, col_c + j))
        AXPBY4(cv, sum[2 * j])
        STORE4(&C(row_c, col_c + j), cv)
        LOAD4(cv, &C(row_c + 4, col_c + j))
        AXPBY4(cv, sum[2 * j + 1])
        STORE4(&C(row_c + 4, col_c + j), cv)
    }
}
