"""Tests of layoutalg/checks."""
