"""Engines that outlast a command: what tune and verify start for each, one test or document starts once.

A process of an engine takes longer to start than most searches of the tests take in it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from layoutalg.kernels import tuning
from layoutalg.kernels.tuning import Engine, local_engine


@contextlib.contextmanager
def lasting_engines() -> Iterator[None]:
    """Commands inside take the processes of those before them that asked for the same ones."""
    with contextlib.ExitStack() as running:

        @functools.cache
        def started(*given: Any, **options: Any) -> Engine:
            return running.enter_context(local_engine(*given, **options))

        with patch.object(tuning, "local_engine", lambda *g, **o: contextlib.nullcontext(started(*g, **o))):
            yield
