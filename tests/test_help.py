"""help() of the package and of every module, also where what is optional is not installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, pkgutil, pydoc, sys
for name in {absent!r}:
    sys.modules[name] = None
import layoutalg
found = {{"layoutalg": pydoc.render_doc(layoutalg)}}
for module in pkgutil.walk_packages(layoutalg.__path__, "layoutalg.", onerror=print):
    if not module.name.endswith("__main__"):
        try:
            found[module.name] = pydoc.render_doc(module.name)
        except pydoc.ErrorDuringImport as error:
            found[module.name] = f"not imported: {{error.value}}"
print(json.dumps(found))
"""


def helps(absent: tuple[str, ...]) -> dict[str, str]:
    """What help() shows of every module in a new process without these libraries."""
    code = SCRIPT.format(absent=absent)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


@pytest.mark.deep
def test_help_of_everything_without_what_is_optional() -> None:
    found = helps(("hypothesis", "cupy", "torch"))
    assert found.pop("layoutalg.testing.strategies") == (
        "not imported: layoutalg.testing.strategies needs hypothesis: pip install 'layoutalg[testing]'"
    )
    assert len(found) > 200
    for name, text in found.items():
        assert not text.startswith("not imported") and "No module named" not in text, name
        assert text.startswith("Python Library Documentation: ") and len(text) > 200, name
    assert "analyse, generate and prove GPU memory layouts" in found["layoutalg"]
