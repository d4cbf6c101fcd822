"""NVRTC in tests: a process compiles the same text for the same target once.

Many tests look at different things of the same kernels: in those of verification nearly half of NVRTC's time
went into texts that it had compiled before.  What it makes of a text are the same bytes each time, which
test_nvrtc holds it to; texts that do not compile are compiled anew, since their files are asked for.
"""

from __future__ import annotations

import functools

from layoutalg.codegen.gpu import nvrtc

_KEPT = 1 << 10
"""Results in memory, of about 30 KB each."""

_compiled = functools.lru_cache(maxsize=_KEPT)(nvrtc._compile)
forget = _compiled.cache_clear
"""What is asked for from here on is compiled."""


def _compile(source: str, name: str, arch: str, options: tuple[str, ...], what: str) -> tuple[bytes, str]:
    nvrtc._library()  # a test may have put something else in its place, or nothing
    return _compiled(source, name, arch, options, what)


def install() -> None:
    """Let the library compile so, in this process."""
    nvrtc._compile = _compile
