"""Tests of layoutalg/arch."""
