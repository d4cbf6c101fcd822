// SGEMM, version 7: 64 x 64 x 16 tiles, a 4 x 4 micro-kernel.  Block 256, grid (M / 64, N / 64).
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
#define sA(i, j) sA[(i) + ((j) << 6)]
#define sB(i, j) sB[(i) + ((j) << 6)]
#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define LOAD4(v, from) v = *((const float4 *)(from));
#define STORE4(to, v) *((float4 *)(to)) = v;
#define SCALE4(v, s)                                                                                             \
    v.x += av.x * s;                                                                                             \
    v.y += av.y * s;                                                                                             \
    v.z += av.z * s;                                                                                             \
    v.w += av.w * s;
#define AXPBY4(c, r)                                                                                             \
    c.x = alpha * r.x + beta * c.x;                                                                              \
    c.y = alpha * r.y + beta * c.y;                                                                              \
    c.z = alpha * r.z + beta * c.z;                                                                              \
    c.w = alpha * r.w + beta * c.w;

__global__ __launch_bounds__(256) void sgemm_v7(int M, int N, int K, float alpha, const float *A, const float *B,
                                                float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int t = threadIdx.x;
    int bx = blockIdx.x, by = blockIdx.y;
    int row_a = (t & 15) << 2, col_a = t >> 4;
    int row_b = (t & 3) << 2, col_b = t >> 2;
    int row_c = (t & 15) << 2, col_c = (t >> 4) << 2;
    A = &A(bx << 6, 0);
    B = &B(0, by << 6);
    C = &C(bx << 6, by << 6);
    __shared__ __align__(16) float sA[TILE_M * TILE_K];
    __shared__ __align__(16) float sB[TILE_N * TILE_K];
    float4 av, bv, cv[4], sum[4];
    for (int i = 0; i < 4; ++i)
        sum[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        LOAD4(av, &A(row_a, col_a))
        LOAD4(bv, &B(row_b, col_b))
        STORE4(&sA(row_a, col_a), av)
        sB(col_b, row_b) = bv.x;
        sB(col_b, row_b + 1) = bv.y;
        sB(col_b, row_b + 2) = bv.z;
        sB(col_b, row_b + 3) = bv.w;
        A += lda << 4;
        B += TILE_K;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE_K; ++k) {
            LOAD4(av, &sA(row_c, k))
            LOAD4(bv, &sB(col_c, k))
            SCALE4(sum[0], bv.x)
            SCALE4(sum[1], bv.y)
            SCALE4(sum[2], bv.z)
            SCALE4(sum[3], bv.w)
        }
        __syncthreads();
    }
    LOAD4(cv[0], &C(row_c, col_c))
    LOAD4(cv[1], &C(row_c, col_c + 1))
    LOAD4(cv[2], &C(row_c, col_c + 2))
    LOAD4(cv[3], &C(row_c, col_c + 3))
    AXPBY4(cv[0], sum[0])
    AXPBY4(cv[1], sum[1])
    AXPBY4(cv[2], sum[2])
    AXPBY4(cv[3], sum[3])
    STORE4(&C(row_c, col_c), cv[0])
    STORE4(&C(row_c, col_c + 1), cv[1])
    STORE4(&C(row_c, col_c + 2), cv[2])
    STORE4(&C(row_c, col_c + 3), cv[3])
}
