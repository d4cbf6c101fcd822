"""Tests of layoutalg/codegen/program."""
