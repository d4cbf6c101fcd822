"""Tests of layoutalg/kernels/elementwise."""
