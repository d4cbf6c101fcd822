"""Tests of layoutalg/compose."""
