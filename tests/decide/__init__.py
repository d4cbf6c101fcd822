"""Tests of layoutalg/decide."""
