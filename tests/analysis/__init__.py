"""Tests of layoutalg/analysis."""
