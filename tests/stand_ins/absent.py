"""What a machine lacks: a test that asks for a compiler that is not there skips, and says so.

The library raises UnsupportedError there, which tests of that look for: they change where programs are looked
for, and get the error.  Where everything is there nothing is changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from layoutalg.codegen.gpu import nvrtc, sass
from layoutalg.errors import UnsupportedError
from tests.stand_ins.compiled_once import hostcc


def _where() -> tuple[object, ...]:
    """What says where programs and libraries are looked for."""
    named = [os.environ.get(name) for name in ("CC", "CXX", "PATH")]
    imported = [vars(module)["find_spec"] for module in (nvrtc, sass)]
    return (*named, *imported, shutil.which, nvrtc._candidates)


def _skipping(look: Callable[..., Any]) -> Callable[..., Any]:
    usual = _where()

    def looked(*args: Any) -> Any:
        try:
            return look(*args)
        except UnsupportedError as error:
            if _where() == usual:
                pytest.skip(str(error))
            raise

    looked.cache_clear = getattr(look, "cache_clear", None)  # type: ignore[attr-defined]
    return looked


def install() -> None:
    """Let what is absent be a reason to skip, in this process."""
    wanted: tuple[tuple[Any, str, tuple[Any, ...]], ...] = (
        (hostcc, "find_compiler", ("c++",)),
        (hostcc, "find_compiler", ("c",)),
        (nvrtc, "_library", ()),
        (sass, "find_disassembler", ()),
    )
    for owner, name, words in wanted:
        try:
            getattr(owner, name)(*words)
        except UnsupportedError:
            setattr(owner, name, _skipping(getattr(owner, name)))
        except pytest.skip.Exception:  # the other language is absent too
            pass
