"""Tests of layoutalg/testing."""
