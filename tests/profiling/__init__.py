"""Tests of layoutalg/profiling."""
