"""Tests of the room `kernels/ladder`."""
