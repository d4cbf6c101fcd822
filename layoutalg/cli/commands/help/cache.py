"""`layoutalg doctor cache`: the compiled kernels that are kept on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from layoutalg.answers import Answer, Count
from layoutalg.cli.output import count, say, say_answer, size_bytes, wants_json


@dataclass(frozen=True)
class Cache(Answer, command="doctor cache"):
    """The compiled kernels that are kept on disk; folder is null where none are."""

    folder: str | None
    limit_bytes: Count
    kernels: Count
    bytes: Count
    removed: Count


def cache_command(
    clear: Annotated[bool, "Remove all of them."] = False,
) -> None:
    """Show where compiled kernels are kept, how many and how large; LAYOUTALG_CACHE chooses the folder."""
    from layoutalg.codegen.gpu import LIMIT_BYTES, cache_folder, usage
    from layoutalg.codegen.gpu import clear as clear_folder

    folder = cache_folder()
    removed = clear_folder(folder) if clear and folder else 0
    entries, size = usage(folder) if folder else (0, 0)
    if wants_json():
        path = None if folder is None else str(folder)
        say_answer(Cache(path, LIMIT_BYTES, entries, size, removed))
    elif folder is None:
        say("Compiled kernels are not kept: LAYOUTALG_CACHE is off, or there is no home.")
    else:
        held = (
            f"{count(entries)} kernels, {size_bytes(size)} of at most {size_bytes(LIMIT_BYTES)}, in {folder}"
        )
        say(*([f"Removed {count(removed)} kernels."] if clear else []), held)
