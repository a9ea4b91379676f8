"""An option in the words of pytest and of argparse."""

from __future__ import annotations

from typing import Any

from pytest_msdump.settings.options import USUAL_DETAILS, Option

__all__ = ["argparse_kwargs", "ini_kwargs"]


def argparse_kwargs(option: Option) -> dict[str, Any]:
    """Return the keywords for ``parser.add_argument`` and pytest's ``group.addoption``, behind the flags.

    The value is text, a list of texts for a repeatable option, ``None`` when not given.
    """
    if option.kind == "switch":
        # What a suite file may say too is not said to be off by being left out.
        default = None if option.toml else False
        return {"dest": option.dest, "default": default, "help": option.help_line, "action": "store_true"}
    kwargs: dict[str, Any] = {
        "dest": option.dest,
        "metavar": option.metavar,
        "default": None,
        "help": option.help_line.replace("%", "%%"),
        "action": "append" if option.kind == "texts" else "store",
    }
    if option.kind == "count":
        kwargs |= {"nargs": "?", "const": str(USUAL_DETAILS)}
    if option.choices:
        kwargs |= {"choices": option.choices, "metavar": "|".join(option.choices)}
    return kwargs


def ini_kwargs(option: Option) -> dict[str, Any]:
    """Return the arguments of ``parser.addini``, `name` included; an option with no ini key has none to return.

    Raises
    ------
    ValueError
        If the option has no ini key.
    """
    if option.ini is None:
        raise ValueError(f"option {option.name} has no ini key")
    kind = {"texts": "linelist", "switch": "bool"}.get(option.kind, "string")
    return {"name": option.ini, "help": option.help_line, "type": kind, "default": None}
