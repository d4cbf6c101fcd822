// Particles as a record of arrays.  Block 128.
struct Particles {
    float *x, *y, *z;
    float *vx, *vy, *vz;
};

__global__ void records_soa(Particles p, float dt, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    p.x[i] += dt * p.vx[i];
    p.y[i] += dt * p.vy[i];
    p.z[i] += dt * p.vz[i];
}
