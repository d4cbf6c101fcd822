"""Tests of layoutalg/kernels."""
