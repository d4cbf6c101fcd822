"""Quantisation to block-scaled formats."""
