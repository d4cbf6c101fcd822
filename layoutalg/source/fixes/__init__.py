"""Fixes that remove the bank conflicts of a source, and the parts of its text that have to change for it.

`fixes_of` takes a reading and answers Fix records, and what is to be said where there are none.

    arrays     shared arrays, their accesses and their memory
    search     the paddings and swizzles that are tried, the counts after each, and in words what was tried
    edits      what a declaration and its uses have to become: one edit, or the accesses to rewrite
"""

from __future__ import annotations

from layoutalg.source.fixes.edits import Edit
from layoutalg.source.fixes.search import Fix, fixes_of

__all__ = ["Edit", "Fix", "fixes_of"]
