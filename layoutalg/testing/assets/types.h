// The types of cuda_runtime.h and cuda_fp16.h that index functions name, beside the vectors.
struct dim3 { unsigned x, y, z; constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
    : x(a), y(b), z(c) {} };
struct __half { unsigned short x; }; typedef __half half;
struct __half2 { __half x, y; }; typedef __half2 half2;
struct __nv_bfloat16 { unsigned short x; }; typedef __nv_bfloat16 nv_bfloat16;
struct __nv_bfloat162 { __nv_bfloat16 x, y; }; typedef __nv_bfloat162 nv_bfloat162;
struct __nv_fp8_e4m3 { unsigned char x; }; struct __nv_fp8_e5m2 { unsigned char x; };
typedef struct CUstream_st* cudaStream_t; typedef int cudaError_t;
