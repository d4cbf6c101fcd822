"""Tests of the room `kernels/calls`."""
