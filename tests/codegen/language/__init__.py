"""Tests of layoutalg/codegen/language."""
