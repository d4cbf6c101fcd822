// One tile of attention with heads of 64: scores of 64 queries and 64 keys, softmax, product with the values.
// f32, a thread per 4 x 4 scores.  Block 256.
#include <cuda_runtime.h>
#define D 64
#define TILE 64

__global__ void attention(float *O, const float *Q, const float *K, const float *V, int length, float scale) {
    __shared__ float sQ[TILE][D];
    __shared__ float sK[TILE][D + 1];
    __shared__ float sV[TILE][D];
    __shared__ float sP[TILE][TILE + 1];
    const int t = threadIdx.x, tx = t % 16, ty = t / 16;
    const float *q = Q + (blockIdx.y * length + blockIdx.x * TILE) * D;
    for (int i = t; i < TILE * D / 4; i += 256)
        reinterpret_cast<float4 *>(&sQ[0][0])[i] = reinterpret_cast<const float4 *>(q)[i];
    float m[4], l[4], o[4][4];
    for (int i = 0; i < 4; ++i) {
        m[i] = -INFINITY;
        l[i] = 0.f;
        for (int j = 0; j < 4; ++j)
            o[i][j] = 0.f;
    }
    for (int block = 0; block < length; block += TILE) {
        const float *k = K + (blockIdx.y * length + block) * D;
        const float *v = V + (blockIdx.y * length + block) * D;
        for (int i = t; i < TILE * D; i += 256) {
            sK[i / D][i % D] = k[i];
            sV[i / D][i % D] = v[i];
        }
        __syncthreads();
        float s[4][4] = {};
        for (int d = 0; d < D; ++d)
            for (int i = 0; i < 4; ++i) {
                const float qv = sQ[ty * 4 + i][d];
                for (int j = 0; j < 4; ++j)
                    s[i][j] += qv * sK[tx + 16 * j][d];
            }
        for (int i = 0; i < 4; ++i) {
            float top = m[i];
            for (int j = 0; j < 4; ++j)
                top = fmaxf(top, s[i][j] * scale);
            for (int mask = 8; mask; mask >>= 1)
                top = fmaxf(top, __shfl_xor_sync(~0u, top, mask));
            const float shrink = __expf(m[i] - top);
            float sum = 0.f;
            for (int j = 0; j < 4; ++j) {
                const float p = __expf(s[i][j] * scale - top);
                sP[ty * 4 + i][tx + 16 * j] = p;
                sum += p;
            }
            for (int mask = 8; mask; mask >>= 1)
                sum += __shfl_xor_sync(~0u, sum, mask);
            l[i] = l[i] * shrink + sum;
            m[i] = top;
            for (int j = 0; j < 4; ++j)
                o[i][j] *= shrink;
        }
        __syncthreads();
        for (int n = 0; n < TILE; ++n) {
            const float4 vv = *reinterpret_cast<const float4 *>(&sV[n][tx * 4]);
            for (int i = 0; i < 4; ++i) {
                const float p = sP[ty * 4 + i][n];
                o[i][0] += p * vv.x;
                o[i][1] += p * vv.y;
                o[i][2] += p * vv.z;
                o[i][3] += p * vv.w;
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        float4 r = make_float4(o[i][0] / l[i], o[i][1] / l[i], o[i][2] / l[i], o[i][3] / l[i]);
        *reinterpret_cast<float4 *>(&O[(blockIdx.y * length + blockIdx.x * TILE + ty * 4 + i) * D + tx * 4]) = r;
    }
}
