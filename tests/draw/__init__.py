"""Tests of layoutalg/draw."""
