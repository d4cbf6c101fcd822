"""Tests of layoutalg/explanation."""
