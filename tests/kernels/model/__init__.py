"""Tests of layoutalg/kernels/model."""
