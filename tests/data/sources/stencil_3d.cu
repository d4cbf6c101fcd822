// Finite differences in three dimensions: planes in shared memory, the third axis in registers.  Block (32, 16).
#define RADIUS 4
#define TX 32
#define TY 16
__constant__ float coefficient[RADIUS + 1];

__global__ void stencil_3d(float *output, const float *input, const int dimx, const int dimy, const int dimz) {
    __shared__ float tile[TY + 2 * RADIUS][TX + 2 * RADIUS];
    const int ltidx = threadIdx.x, ltidy = threadIdx.y;
    const int stride_y = dimx + 2 * RADIUS;
    const int stride_z = stride_y * (dimy + 2 * RADIUS);
    int index = (blockIdx.y * TY + ltidy + RADIUS) * stride_y + blockIdx.x * TX + ltidx + RADIUS;
    float infront[RADIUS], behind[RADIUS], current;
    const int tx = ltidx + RADIUS, ty = ltidy + RADIUS;
    for (int i = RADIUS - 2; i >= 0; i--) {
        behind[i] = input[index];
        index += stride_z;
    }
    current = input[index];
    int out_index = index;
    index += stride_z;
    for (int i = 0; i < RADIUS; i++) {
        infront[i] = input[index];
        index += stride_z;
    }
    for (int iz = 0; iz < dimz; iz++) {
        for (int i = RADIUS - 1; i > 0; i--)
            behind[i] = behind[i - 1];
        behind[0] = current;
        current = infront[0];
        for (int i = 0; i < RADIUS - 1; i++)
            infront[i] = infront[i + 1];
        infront[RADIUS - 1] = input[index];
        index += stride_z;
        out_index += stride_z;
        __syncthreads();
        if (ltidy < RADIUS) {
            tile[ltidy][tx] = input[out_index - RADIUS * stride_y];
            tile[ltidy + TY + RADIUS][tx] = input[out_index + TY * stride_y];
        }
        if (ltidx < RADIUS) {
            tile[ty][ltidx] = input[out_index - RADIUS];
            tile[ty][ltidx + TX + RADIUS] = input[out_index + TX];
        }
        tile[ty][tx] = current;
        __syncthreads();
        float value = coefficient[0] * current;
        for (int i = 1; i <= RADIUS; i++) {
            value += coefficient[i] * (infront[i - 1] + behind[i - 1]);
            value += coefficient[i] * (tile[ty - i][tx] + tile[ty + i][tx]);
            value += coefficient[i] * (tile[ty][tx - i] + tile[ty][tx + i]);
        }
        output[out_index] = value;
    }
}
