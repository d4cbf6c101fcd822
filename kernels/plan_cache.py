"""Chains on disk, by the problem they compute: a problem is planned once, not once a process.

The idea.  Planning, printing and compiling a kernel takes 0.1 s, all of it a function of the problem, the
architecture, the compiler and this package's code: their SHA-256 names an entry among those of
`codegen.gpu.cubin_cache`, of the same format and kept by the same rules, that holds the machine code of a
chain's kernels one after the other and, in the header, all that their launches need.

    {"kernels": [{"name": "permute_b32", "grid": [120, 1, 1], "image_bytes": 9216, ...}],
     "buffers": [["src", "dst"]], "partial_bytes": 0}

The package's code is known by the content of its files, or of the archive that holds them, when it was
imported: an edited plan is another key, whatever its size and time of change.  An entry whose fields are not
of the kinds above is planned again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import (
    Entry,
    Launchable,
    cache_folder,
    compile_options,
    fetch_entry,
    offer_entry,
    require_gpu,
    version,
)
from layoutalg.kernels.chains import LoadedChain, Problem, ReadyChain, chain_of, load_chain, prepare_chain

LOADED_CHAINS = 1024
"""Problems whose kernels stay loaded; those asked for longest ago leave."""


@functools.lru_cache(LOADED_CHAINS)
def chain_on_gpu(p: Problem, device: int | None) -> LoadedChain:
    """The best plan of a problem, loaded on the current GPU, whose number is `device`.

    Raises UnsupportedError without a GPU, and as `kept_chain` does.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> from layoutalg.kernels.chains import find_problem
    >>> if gpu_status().available:
    ...     loaded = chain_on_gpu(find_problem("max", (8, 64), (1,), "f16"), 0)
    """
    return load_chain(kept_chain(p, require_gpu().arch, cache_folder()))


def kept_chain(p: Problem, arch: str, folder: Path | None) -> ReadyChain:
    """The best plan of a problem, compiled, from a folder; it is put there where it was not.

    Raises what `chain_of` and `prepare_chain` raise; trouble with the folder is a warning.

    >>> import tempfile
    >>> from layoutalg.kernels.chains import find_problem
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     p = find_problem("max", (8, 64), (1,), "f16")
    ...     first, second = (kept_chain(p, "sm_80", Path(folder)) for _ in range(2))
    >>> first == second
    True
    """
    if folder is None:
        return prepare_chain(chain_of(p, arch), arch)
    key = chain_key(p, arch)
    entry = fetch_entry(folder, key)
    kept = None if entry is None else _unpacked(*entry)
    if kept is not None:
        return kept
    chain = prepare_chain(chain_of(p, arch), arch)
    offer_entry(folder, key, *_packed(chain))
    return chain


def chain_key(p: Problem, arch: str) -> str:
    """The name of a problem's entry: 64 hex digits of all that its kernels depend on.

    >>> from layoutalg.kernels.chains import find_problem
    >>> a, b = (find_problem("max", (8, 64), (axis,), "f16") for axis in (0, 1))
    >>> chain_key(a, "sm_80") == chain_key(b, "sm_80"), len(chain_key(a, "sm_80"))
    (False, 64)
    """
    parts = ["chain 1", repr(p), arch, *map(str, version()), *compile_options(arch), _CODE]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def code_id(root: Path) -> str:
    """64 hex digits of the names and contents of all Python files in a folder, linked ones too.

    Of a package that is imported from an archive: of the archive.  What is not a regular file, such as the
    lock of an editor or a link to nowhere, is not code; nor is what vanishes meanwhile.

    >>> len(code_id(Path(__file__).parent))
    64
    """
    digest = hashlib.sha256()
    paths: list[str] = sorted(_files(os.fspath(root), frozenset()))
    archives = [os.fspath(place) for place in (root, *root.parents) if place.is_file()]
    for path in paths or archives:
        with contextlib.suppress(OSError):
            content = Path(path).read_bytes()
            digest.update(json.dumps([os.path.relpath(path, root), len(content)]).encode() + content)
    return digest.hexdigest()


def _files(folder: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
    """Paths of regular Python files; of linked ones too, but of no folder inside itself."""
    with contextlib.suppress(OSError):
        status = Path(folder).stat()
        here = (status.st_dev, status.st_ino)
        with os.scandir(folder) as listing:
            for item in listing if here not in above else ():
                if item.is_dir():
                    yield from _files(item.path, above | {here})
                elif item.name.endswith(".py") and item.is_file():
                    yield item.path


_CODE = code_id(Path(__file__).parents[1])
"""Of this package, when it was imported: what is edited later is not what runs."""


def _packed(chain: ReadyChain) -> Entry:
    kernels = []
    for kernel in chain.kernels:
        named = asdict(kernel)
        named["image_bytes"] = len(named.pop("image"))
        kernels.append(named)
    fields = {"kernels": kernels, "buffers": chain.buffers, "partial_bytes": chain.partial_bytes}
    return fields, b"".join(kernel.image for kernel in chain.kernels)


def _unpacked(fields: Mapping[str, Any], image: bytes) -> ReadyChain | None:
    """The chain that an entry holds, None where its fields are of other kinds."""
    match fields:
        case {"kernels": [*kernels], "buffers": [*buffers], "partial_bytes": int(partial_bytes)}:
            launchables = tuple(_launchables(kernels, image))
            if len(launchables) == len(kernels) == len(buffers) and all(map(_is_names, buffers)):
                return ReadyChain(launchables, tuple(map(tuple, buffers)), partial_bytes)
    return None


def _is_names(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _is_pointer(pair: object) -> bool:
    """Whether it is a name with the bytes of which the address is a multiple."""
    match pair:
        case [str(), int()]:
            return True
    return False


def _launchables(kernels: Sequence[object], image: bytes) -> Iterator[Launchable]:
    """Kernels as they were packed, up to the first one whose fields are of other kinds."""
    at = 0
    for kernel in kernels:
        match kernel:
            case {
                "name": str(name),
                "pointers": [*pointers],
                "grid": [int(x), int(y), int(z)],
                "threads": int(threads),
                "shared_bytes": int(shared_bytes),
                "image_bytes": int(image_bytes),
                "dependent": bool(dependent),
            }:
                pairs = [(p[0], p[1]) for p in pointers if _is_pointer(p)]
                if len(pairs) < len(pointers) or not 0 <= image_bytes <= len(image) - at:
                    return
                code = image[at : at + image_bytes]
                yield Launchable(name, tuple(pairs), (x, y, z), threads, shared_bytes, code, dependent)
                at += image_bytes
            case _:
                return
