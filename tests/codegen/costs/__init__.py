"""Tests of layoutalg/codegen/costs."""
