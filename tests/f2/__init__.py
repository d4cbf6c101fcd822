"""Tests of layoutalg/f2."""
