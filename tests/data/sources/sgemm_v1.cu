// SGEMM, version 1: a thread per element of C, operands straight from global memory.
// All matrices are column-major; C = alpha A B + beta C.  Block (32, 32), grid (M / 32, N / 32).
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]

__global__ __launch_bounds__(1024) void sgemm_v1(int M, int N, int K, float alpha, const float *A,
                                                 const float *B, float beta, float *C) {
    int lda = M, ldb = K, ldc = M;
    int tx = threadIdx.x, ty = threadIdx.y;
    int bx = blockIdx.x, by = blockIdx.y;
    A = &A(bx << 5, 0);
    B = &B(0, by << 5);
    C = &C(bx << 5, by << 5);
    float sum = 0.f;
    for (int k = 0; k < K; ++k)
        sum += A(tx, k) * B(k, ty);
    C(tx, ty) = alpha * sum + beta * C(tx, ty);
}
