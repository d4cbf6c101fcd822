"""Tests of layoutalg/legality."""
