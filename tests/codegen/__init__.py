"""Tests of layoutalg/codegen."""
