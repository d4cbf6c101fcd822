"""Tests of layoutalg/notation."""
