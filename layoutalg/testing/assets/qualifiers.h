// The words of CUDA that come before a declaration.
#define __device__
#define __host__
#define __global__ static
#define __constant__
#define __shared__
#define __managed__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __grid_constant__
#define CUTE_HOST_DEVICE inline
#define CUTE_DEVICE inline
#define CUTLASS_HOST_DEVICE inline
#define CUTLASS_DEVICE inline
