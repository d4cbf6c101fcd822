"""Tests of layoutalg/codegen/instr."""
