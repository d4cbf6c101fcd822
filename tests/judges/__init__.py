"""Definitions and peers that results are compared with."""
