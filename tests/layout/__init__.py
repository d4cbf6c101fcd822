"""Tests of layoutalg/layout."""
