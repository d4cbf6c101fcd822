"""Tests of the room `kernels/gemm`."""
