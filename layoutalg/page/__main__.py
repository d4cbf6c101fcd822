"""`python -m layoutalg.page FOLDER [--pyodide PATH]`: explore.html and its files, for a site."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from layoutalg.errors import LayoutAlgError
from layoutalg.page.explorer import PYODIDE, write_explorer


def main() -> int:
    """Write the files and name them; return 2 with a sentence where they cannot be obtained."""
    parser = argparse.ArgumentParser(prog="python -m layoutalg.page", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where explore.html is written")
    parser.add_argument(
        "--pyodide", type=Path, metavar="PATH", help=f"npm package pyodide {PYODIDE}, unpacked or its archive"
    )
    args = parser.parse_args()
    try:
        written = write_explorer(args.folder, args.pyodide)
    except (LayoutAlgError, OSError) as error:
        print(f"layoutalg.page: {error}", file=sys.stderr)
        return 2
    for path in written:
        print(f"wrote {path} ({path.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
