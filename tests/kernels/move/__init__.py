"""Tests of layoutalg/kernels/move."""
