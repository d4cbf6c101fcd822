"""Tests of layoutalg/synthesis."""
