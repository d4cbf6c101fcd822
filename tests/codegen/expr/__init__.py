"""Tests of layoutalg/codegen/expr."""
