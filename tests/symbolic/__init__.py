"""Tests of layoutalg/symbolic."""
