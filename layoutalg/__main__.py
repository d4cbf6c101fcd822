"""`python -m layoutalg`: the command, where its script is not on PATH."""

from __future__ import annotations

from layoutalg.cli import main

if __name__ == "__main__":
    main()
