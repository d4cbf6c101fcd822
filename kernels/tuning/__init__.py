"""Timings of many configurations: taken once, kept, and chosen from.

keys      Key and Record: what a timing is of, and what is known of it
store     Store: lines that are appended, under several writers and killed ones
"""

from __future__ import annotations

from layoutalg.kernels.tuning.keys import (
    TIMINGS,
    Key,
    Record,
    called_sequence,
    kernel_digest,
    library_version,
    record_fields,
    record_of,
    text_digest,
)
from layoutalg.kernels.tuning.store import Store, salvaged

__all__ = [
    "TIMINGS",
    "Key",
    "Record",
    "Store",
    "called_sequence",
    "kernel_digest",
    "library_version",
    "record_fields",
    "record_of",
    "salvaged",
    "text_digest",
]
