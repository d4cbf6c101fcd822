// y = A x with A in CSR, a warp per row.  Block 128.
__global__ void spmv(int rows, const int *row_ptr, const int *cols, const double *values, const double *x, double *y) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row < rows) {
        double sum = 0;
        for (int j = row_ptr[row] + lane; j < row_ptr[row + 1]; j += 32)
            sum += values[j] * x[cols[j]];
        for (int offset = 16; offset > 0; offset >>= 1)
            sum += __shfl_down_sync(0xffffffff, sum, offset);
        if (lane == 0)
            y[row] = sum;
    }
}
