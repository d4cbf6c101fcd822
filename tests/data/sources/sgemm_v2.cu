// SGEMM, version 2: 32 x 32 x 32 tiles in shared memory, indexed row-major while the matrices are column-major.
// Block (32, 32), grid (M / 32, N / 32).  Lanes run down the rows of a tile: all of them in one bank.
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
#define sA(i, j) sA[((i) << 5) + (j)]
#define sB(i, j) sB[((i) << 5) + (j)]
#define TILE 32

__global__ __launch_bounds__(1024) void sgemm_v2(int M, int N, int K, float alpha, const float *A,
                                                 const float *B, float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int tx = threadIdx.x, ty = threadIdx.y;
    int bx = blockIdx.x, by = blockIdx.y;
    A = &A(bx << 5, 0);
    B = &B(0, by << 5);
    C = &C(bx << 5, by << 5);
    __shared__ float sA[TILE * TILE];
    __shared__ float sB[TILE * TILE];
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        sA(tx, ty) = A(tx, ty);
        sB(ty, tx) = B(tx, ty);
        A += lda << 5;
        B += TILE;
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += sA(tx, k) * sB(ty, k);
        __syncthreads();
    }
    C(tx, ty) = alpha * sum + beta * C(tx, ty);
}
