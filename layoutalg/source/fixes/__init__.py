"""Fixes that remove the bank conflicts of a source, and the parts of its text that have to change for it.

`fixes_of` takes a reading and answers Fix records, and what is to be said where there are none.

    arrays     shared arrays, their accesses and their memory
    remedies   a padding or a swizzle of a tile, and the fix that it is
    search     the paddings and swizzles that are tried, the counts after each, and in words what was tried
    sites      edits of subscripts and declarations that may make it
    check      those edits read again and compared, and their patch
    edits      uses that an edit does not reach, and accesses to rewrite in words
"""

from __future__ import annotations

from layoutalg.source.fixes.check import patch_of, patched_fixes
from layoutalg.source.fixes.edits import Edit
from layoutalg.source.fixes.remedies import Fix
from layoutalg.source.fixes.search import fixes_of
