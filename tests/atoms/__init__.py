"""Tests of layoutalg/atoms."""
