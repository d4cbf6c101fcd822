// SGEMM, version 5: four rows of C per thread (a 4 x 1 micro-kernel), every transfer a single element.
// Block 256, grid (M / 32, N / 32).  The tile of B is held transposed.
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
#define sA(i, j) sA[(i) + ((j) << 5)]
#define sB(i, j) sB[(i) + ((j) << 5)]
#define TILE 32

__global__ __launch_bounds__(256) void sgemm_v5(int M, int N, int K, float alpha, const float *A, const float *B,
                                                float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int t = threadIdx.x;
    int bx = blockIdx.x, by = blockIdx.y;
    int row = (t & 7) << 2, col = t >> 3;
    A = &A(bx << 5, 0);
    B = &B(0, by << 5);
    C = &C(bx << 5, by << 5);
    __shared__ float sA[TILE * TILE];
    __shared__ float sB[TILE * TILE];
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    float b;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        sA(row, col) = A(row, col);
        sA(row + 1, col) = A(row + 1, col);
        sA(row + 2, col) = A(row + 2, col);
        sA(row + 3, col) = A(row + 3, col);
        sB(col, row) = B(row, col);
        sB(col, row + 1) = B(row + 1, col);
        sB(col, row + 2) = B(row + 2, col);
        sB(col, row + 3) = B(row + 3, col);
        A += lda << 5;
        B += TILE;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            b = sB(col, k);
            sum[0] += sA(row, k) * b;
            sum[1] += sA(row + 1, k) * b;
            sum[2] += sA(row + 2, k) * b;
            sum[3] += sA(row + 3, k) * b;
        }
        __syncthreads();
    }
    C(row, col) = alpha * sum[0] + beta * C(row, col);
    C(row + 1, col) = alpha * sum[1] + beta * C(row + 1, col);
    C(row + 2, col) = alpha * sum[2] + beta * C(row + 2, col);
    C(row + 3, col) = alpha * sum[3] + beta * C(row + 3, col);
}
