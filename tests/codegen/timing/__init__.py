"""Tests of layoutalg/codegen/timing."""
