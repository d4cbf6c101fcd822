"""Tests of layoutalg/page."""
