"""Tests of layoutalg/indexing."""
