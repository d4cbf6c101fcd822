"""Compare or write tests/data/sources/expected.json: see the package."""

from __future__ import annotations

import json
import sys

from tests.corpus import SOURCES, expected
from tests.corpus.measure import FOLDER

FILE = FOLDER / "expected.json"


def text() -> str:
    """The table with a line per access."""
    entries = []
    for source in SOURCES:
        found = expected(source)
        accesses = ",\n".join("    " + json.dumps(access) for access in found.pop("accesses"))
        entries.append(f'"{source.file}": {json.dumps(found)[:-1]},\n  "accesses": [\n{accesses}\n  ]}}')
    return "{\n" + ",\n".join(entries) + "\n}\n"


def main() -> int:
    """0 where the file says what is counted."""
    made = text()
    if "--write" in sys.argv[1:]:
        FILE.write_text(made, encoding="utf-8")
        return 0
    same = FILE.exists() and FILE.read_text(encoding="utf-8") == made
    print("equal" if same else "expected.json is not what is counted: python -m tests.corpus --write")
    return not same


if __name__ == "__main__":
    sys.exit(main())
