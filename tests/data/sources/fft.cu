// A complex FFT of 512 points in shared memory, radix 2, real and imaginary parts apart.  Block 256.
#include <cuda_runtime.h>
#define POINTS 512

__global__ void fft(float2 *data) {
    __shared__ float re[POINTS], im[POINTS];
    const int t = threadIdx.x;
    float2 *signal = data + blockIdx.x * POINTS;
    const int reversed0 = __brev(t) >> 23, reversed1 = __brev(t + 256) >> 23;
    re[reversed0] = signal[t].x;
    im[reversed0] = signal[t].y;
    re[reversed1] = signal[t + 256].x;
    im[reversed1] = signal[t + 256].y;
    for (int half = 1; half < POINTS; half <<= 1) {
        __syncthreads();
        const int k = t & (half - 1);
        const int low = ((t - k) << 1) + k;
        const int high = low + half;
        float s, c;
        __sincosf(-3.14159265f * k / half, &s, &c);
        const float xr = re[high], xi = im[high];
        const float yr = xr * c - xi * s;
        const float yi = xr * s + xi * c;
        const float lr = re[low], li = im[low];
        re[high] = lr - yr;
        im[high] = li - yi;
        re[low] = lr + yr;
        im[low] = li + yi;
    }
    __syncthreads();
    signal[t] = make_float2(re[t], im[t]);
    signal[t + 256] = make_float2(re[t + 256], im[t + 256]);
}
