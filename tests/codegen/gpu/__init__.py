"""Tests of layoutalg/codegen/gpu."""
