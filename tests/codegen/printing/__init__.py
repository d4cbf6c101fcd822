"""Tests of layoutalg/codegen/printing."""
