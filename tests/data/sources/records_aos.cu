// Particles as an array of records of 28 bytes: neighbours are 28 bytes apart.  Block 128.
struct Particle {
    float x, y, z;
    float vx, vy, vz;
    float mass;
};

__global__ void records_aos(Particle *particles, float dt, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    particles[i].x += dt * particles[i].vx;
    particles[i].y += dt * particles[i].vy;
    particles[i].z += dt * particles[i].vz;
}
