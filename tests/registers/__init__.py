"""Tests of layoutalg/registers."""
