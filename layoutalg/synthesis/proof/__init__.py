"""The proof of a synthesis, repeated from its question alone: nothing of the search is imported here."""

from layoutalg.synthesis.proof.checker import check_certificate

__all__ = ["check_certificate"]
