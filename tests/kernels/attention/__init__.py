"""Tests of attention: its definition, its kernel in the simulator, mistakes in it, and its calls."""
