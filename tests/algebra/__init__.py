"""Tests of layoutalg/algebra."""
