// Rows of a table chosen by indices: a block row per index, float2 per lane.  Block (32, 8).
__global__ void embedding(float2 *__restrict__ out, const float2 *__restrict__ table, const long long *__restrict__ ids,
                          int tokens, int dim2) {
    const int token = blockIdx.x * blockDim.y + threadIdx.y;
    if (token >= tokens)
        return;
    const long long id = ids[token];
    const float2 *from = table + id * dim2;
    for (int i = threadIdx.x; i < dim2; i += blockDim.x)
        out[token * dim2 + i] = from[i];
}
