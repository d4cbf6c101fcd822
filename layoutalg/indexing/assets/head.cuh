#pragma once

#ifndef LAYOUTALG_FUNCTION
#ifdef __CUDACC__
#define LAYOUTALG_FUNCTION __host__ __device__ constexpr
#else
#define LAYOUTALG_FUNCTION constexpr
#endif
#endif
