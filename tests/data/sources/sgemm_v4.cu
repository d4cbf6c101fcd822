// SGEMM, version 4: shared tiles column-major: the lanes of a warp read neighbours, and store those of A.  B's tile has
// n along its columns, where the matrix has k: its store stays 32-way.
// Block 1024, grid (M / 32, N / 32).
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
#define sA(i, j) sA[(i) + ((j) << 5)]
#define sB(i, j) sB[(i) + ((j) << 5)]
#define TILE 32

__global__ __launch_bounds__(1024) void sgemm_v4(int M, int N, int K, float alpha, const float *A,
                                                 const float *B, float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int t = threadIdx.x;
    int bx = blockIdx.x, by = blockIdx.y;
    int row = t & 31, col = t >> 5;
    A = &A(bx << 5, 0);
    B = &B(0, by << 5);
    C = &C(bx << 5, by << 5);
    __shared__ float sA[TILE * TILE];
    __shared__ float sB[TILE * TILE];
    float sum = 0.f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        sA(row, col) = A(row, col);
        sB(col, row) = B(row, col);
        A += lda << 5;
        B += TILE;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k)
            sum += sA(row, k) * sB(col, k);
        __syncthreads();
    }
    C(row, col) = alpha * sum + beta * C(row, col);
}
