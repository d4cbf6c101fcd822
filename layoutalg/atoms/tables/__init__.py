"""The rows of MMA and copy atoms, one file per architecture that brought them; ADD A ROW THERE.

sm61     one thread's arithmetic, and the copies that every architecture has
sm70     mma.m8n8k4 of half precision
sm75     the first mma.sync of a whole warp; ldmatrix
sm80     mma.sync of every type; cp.async
sm89     mma.sync of 8-bit floating point
sm90     mma.sync of f64, stmatrix
sm100    tcgen05.ld and .st of tensor memory
wgmma    wgmma.mma_async of sm_90a
"""
