"""Tests of layoutalg/codegen/sim."""
