"""explore.html as files: the page, the library as an archive, and the five files of Pyodide's core.

    FOLDER/explore.html
    FOLDER/explore/layoutalg.zip        this library, as it is installed here
    FOLDER/explore/pyodide.mjs, ...     the npm package `pyodide`: Python for the browser, without packages

All links are relative, and no other host is needed: any server of files will do.  A browser does not
let a page from file:// read the files beside it, so a server is needed: python -m http.server -d FOLDER.

Source: pyodide.org, "Downloading and deploying"; the npm package holds the core and no NumPy, which is why
the library counts without it.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from layoutalg.errors import MismatchError, UnsupportedError
from layoutalg.page.document import explore_html
from layoutalg.tools import run_tool, scratch

PYODIDE = "314.0.7"
"""The version of the npm package that the page was tried with."""

PYODIDE_SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
"""The digest of its archive."""

CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")

FOLDER = "explore"

_WHERE = f"name an unpacked npm package pyodide {PYODIDE}, or its archive, as --pyodide PATH"


def write_explorer(folder: Path, pyodide: Path | None = None) -> tuple[Path, ...]:
    """Write explore.html and its files into `folder`, each whole or not at all; the paths, the page first.

    `pyodide` is an unpacked npm package or its archive; without it, npm is asked for version PYODIDE.  Raises
    UnsupportedError where there is neither, MismatchError for an archive of npm with another digest, OSError.
    """
    beside = folder / FOLDER
    core = _core(pyodide)
    beside.mkdir(parents=True, exist_ok=True)
    written = [_write(beside / name, data) for name, data in core.items()]
    written.append(_write(beside / "layoutalg.zip", library_archive()))
    page = _write(folder / "explore.html", explore_html(FOLDER).encode())  # last: it loads all others
    return (page, *written)


def library_archive() -> bytes:
    """This library as a zip archive, the same bytes for the same files.

    >>> import zipfile
    >>> "layoutalg/page/engine.py" in zipfile.ZipFile(io.BytesIO(library_archive())).namelist()
    True
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_library()):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return out.getvalue()


def _library() -> Iterator[tuple[str, Path]]:
    """(name in the archive, path) of every file of the package; caches aside."""
    root = Path(str(files("layoutalg")))
    for parent, folders, names in os.walk(root, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = Path(parent) / name
            if path.suffix != ".pyc":
                yield f"layoutalg/{path.relative_to(root).as_posix()}", path


def _core(path: Path | None) -> dict[str, bytes]:
    """The files of Pyodide's core by name."""
    if path is not None and path.is_dir():
        missing = [name for name in CORE if not (path / name).is_file()]
        if missing:
            raise UnsupportedError(
                f"{path} is not an npm package of pyodide: it lacks {missing[0]}; {_WHERE}"
            )
        return {name: (path / name).read_bytes() for name in CORE}
    if path is not None:
        return _unpacked(path.read_bytes(), str(path))
    with scratch() as folder:
        pack = ["npm", "pack", f"pyodide@{PYODIDE}", "--ignore-scripts", "--pack-destination", str(folder)]
        try:
            ran = run_tool(pack, timeout_s=300)
        except TimeoutError as error:
            raise UnsupportedError(f"npm pack pyodide@{PYODIDE} gave {error}; {_WHERE}") from None
        archives = list(folder.glob("*.tgz"))
        if ran.status or len(archives) != 1:
            last = ran.said.splitlines()[-1] if ran.said else "nothing"
            raise UnsupportedError(f"npm pack pyodide@{PYODIDE} ended with {ran.status} ({last}); {_WHERE}")
        data = archives[0].read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != PYODIDE_SHA256:
        raise MismatchError(f"pyodide@{PYODIDE} from npm has sha256 {digest}; {PYODIDE_SHA256} was expected")
    return _unpacked(data, f"pyodide@{PYODIDE}")


def _unpacked(data: bytes, name: str) -> dict[str, bytes]:
    """The files of the core in an npm archive; no others are looked at."""
    out: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for file in CORE:
                content = archive.extractfile(f"package/{file}")
                if content is not None:
                    out[file] = content.read()
    except (tarfile.TarError, KeyError, OSError) as error:
        raise UnsupportedError(
            f"{name} is no archive of the npm package pyodide ({error}); {_WHERE}"
        ) from None
    return out


def _write(path: Path, data: bytes) -> Path:
    """Write a file that a server shows, through a temporary one beside it."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path
