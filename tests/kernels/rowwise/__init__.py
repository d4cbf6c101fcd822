"""Tests of layoutalg/kernels/rowwise."""
