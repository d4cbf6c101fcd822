// Five-point stencil on a shared tile with a halo.  Block (32, 8).
#define BX 32
#define BY 8
#define RADIUS 1

__global__ void stencil_2d(float *out, const float *in, int nx, int ny) {
    __shared__ float s[BY + 2 * RADIUS][BX + 2 * RADIUS];
    const int gx = blockIdx.x * BX + threadIdx.x, gy = blockIdx.y * BY + threadIdx.y;
    const int lx = threadIdx.x + RADIUS, ly = threadIdx.y + RADIUS;
    s[ly][lx] = in[gy * nx + gx];
    if (threadIdx.x < RADIUS) {
        s[ly][lx - RADIUS] = gx >= RADIUS ? in[gy * nx + gx - RADIUS] : 0.f;
        s[ly][lx + BX] = gx + BX < nx ? in[gy * nx + gx + BX] : 0.f;
    }
    if (threadIdx.y < RADIUS) {
        s[ly - RADIUS][lx] = gy >= RADIUS ? in[(gy - RADIUS) * nx + gx] : 0.f;
        s[ly + BY][lx] = gy + BY < ny ? in[(gy + BY) * nx + gx] : 0.f;
    }
    __syncthreads();
    float sum = -4.f * s[ly][lx];
    sum += s[ly][lx - 1];
    sum += s[ly][lx + 1];
    sum += s[ly - 1][lx];
    sum += s[ly + 1][lx];
    out[gy * nx + gx] = sum;
}
