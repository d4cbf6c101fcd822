// SGEMM, version 6: the four rows of version 5 as one 16-byte transfer.  Block 256, grid (M / 32, N / 32).
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
#define sA(i, j) sA[(i) + ((j) << 5)]
#define sB(i, j) sB[(i) + ((j) << 5)]
#define TILE 32
#define LOAD4(v, from) v = *((const float4 *)(from));
#define STORE4(to, v) *((float4 *)(to)) = v;

__global__ __launch_bounds__(256) void sgemm_v6(int M, int N, int K, float alpha, const float *A, const float *B,
                                                float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int t = threadIdx.x;
    int bx = blockIdx.x, by = blockIdx.y;
    int row = (t & 7) << 2, col = t >> 3;
    A = &A(bx << 5, 0);
    B = &B(0, by << 5);
    C = &C(bx << 5, by << 5);
    __shared__ __align__(16) float sA[TILE * TILE];
    __shared__ __align__(16) float sB[TILE * TILE];
    float4 av, bv, cv, sum = make_float4(0.f, 0.f, 0.f, 0.f);
    float b;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        LOAD4(av, &A(row, col))
        LOAD4(bv, &B(row, col))
        STORE4(&sA(row, col), av)
        sB(col, row) = bv.x;
        sB(col, row + 1) = bv.y;
        sB(col, row + 2) = bv.z;
        sB(col, row + 3) = bv.w;
        A += lda << 5;
        B += TILE;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            b = sB(col, k);
            LOAD4(av, &sA(row, k))
            sum.x += av.x * b;
            sum.y += av.y * b;
            sum.z += av.z * b;
            sum.w += av.w * b;
        }
        __syncthreads();
    }
    LOAD4(cv, &C(row, col))
    cv.x = alpha * sum.x + beta * cv.x;
    cv.y = alpha * sum.y + beta * cv.y;
    cv.z = alpha * sum.z + beta * cv.z;
    cv.w = alpha * sum.w + beta * cv.w;
    STORE4(&C(row, col), cv)
}
