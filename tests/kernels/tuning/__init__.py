"""Tests of the room `kernels/tuning`."""
