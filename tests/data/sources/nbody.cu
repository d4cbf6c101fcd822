// Forces among bodies: a tile of positions at a time in shared memory, every thread reads the same one.  Block 256.
__device__ float3 interaction(float3 ai, float4 bi, float4 bj, float eps2) {
    float3 r;
    r.x = bj.x - bi.x;
    r.y = bj.y - bi.y;
    r.z = bj.z - bi.z;
    float square = r.x * r.x + r.y * r.y + r.z * r.z + eps2;
    float inverse = rsqrtf(square);
    float s = bj.w * inverse * inverse * inverse;
    ai.x += r.x * s;
    ai.y += r.y * s;
    ai.z += r.z * s;
    return ai;
}

__global__ void nbody(float4 *forces, const float4 *positions, int bodies, float eps2) {
    extern __shared__ float4 shared_positions[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 mine = positions[i];
    float3 force = {0.f, 0.f, 0.f};
    for (int tile = 0; tile < bodies / blockDim.x; tile++) {
        shared_positions[threadIdx.x] = positions[tile * blockDim.x + threadIdx.x];
        __syncthreads();
#pragma unroll 32
        for (int j = 0; j < blockDim.x; j++)
            force = interaction(force, mine, shared_positions[j], eps2);
        __syncthreads();
    }
    forces[i] = make_float4(force.x, force.y, force.z, 0.f);
}
