"""Tests of layoutalg/model."""
