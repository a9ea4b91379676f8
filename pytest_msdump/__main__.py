"""``python -m pytest_msdump`` is the command ``msdump``."""

from __future__ import annotations

from pytest_msdump.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
