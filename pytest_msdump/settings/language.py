"""In which language a person is spoken to."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_msdump.errors import ConfigError
from pytest_msdump.facts.languages import LANGUAGES

__all__ = ["language_of"]

# POSIX: the first that is set, and not empty, decides.
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
# What Big5 and ASCII cannot write.
_SAMPLE = "张量转储"


def language_of(wanted: str | None, environ: Mapping[str, str], *, encoding: str | None = None) -> str:
    """Return ``"en"`` or ``"zh"``.

    Parameters
    ----------
    wanted : str, optional
        ``"en"``, ``"zh"`` or ``"auto"``, which is what nothing means as well.
    environ : mapping
        The process's environment, for the locale.
    encoding : str, optional
        Of the terminal; ``"auto"`` does not choose what it cannot write.

    Raises
    ------
    ConfigError
        Another word is wanted.

    Examples
    --------
    >>> language_of("auto", {"LANG": "zh_CN.UTF-8"}), language_of(None, {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"})
    ('zh', 'en')
    """
    if wanted in LANGUAGES:
        return wanted
    if wanted not in (None, "", "auto"):
        raise ConfigError(f"msdump_lang: there is no language {wanted!r}; give en, zh or auto")
    locale = next((environ[name] for name in _VARIABLES if environ.get(name)), "")
    language = locale.replace("-", "_").partition(".")[0].partition("_")[0].lower()
    return "zh" if language == "zh" and _can_write(encoding) else "en"


def _can_write(encoding: str | None) -> bool:
    if encoding is None:
        return True
    try:
        _SAMPLE.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
