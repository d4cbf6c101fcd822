"""The launchers by name: what `generate --launcher` adds to the text of kernels."""

from __future__ import annotations

from layoutalg.codegen.printing.cpp import cpp_launcher
from layoutalg.codegen.printing.python import LIBRARIES, python_launcher
from layoutalg.codegen.printing.record import LaunchRecord
from layoutalg.codegen.printing.standalone import cpp_program
from layoutalg.errors import UnknownNameError


def with_launcher(source: str, record: LaunchRecord, launcher: str | None) -> str:
    """The text of kernels with a launcher: "cpp", with a "main" too, "torch", "cupy", or as it is for None.

    Raises UnknownNameError for another.

    >>> with_launcher("// kernels", LaunchRecord("nothing", (), ()), None)
    '// kernels'
    """
    if launcher is None:
        return source
    if launcher == "cpp":
        return cpp_launcher(record, source)
    if launcher == "main":
        return cpp_program(record, source)
    if launcher not in LIBRARIES:
        raise UnknownNameError("launcher", launcher, ("cpp", "main", *LIBRARIES))
    return python_launcher(record, source, launcher)
