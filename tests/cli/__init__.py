"""Tests of layoutalg/cli."""
