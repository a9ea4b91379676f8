"""Which numbers are wanted (``-alg``), and what is passed to a user's algorithms (``-a``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pytest_msdump.errors import ConfigError, UnknownNameError
from pytest_msdump.facts.metrics import METRICS

__all__ = ["chosen_algorithms", "passed_arguments"]

_ALL = "all"

# The vendor's numbers 0 to 9 are the places in this table, which `facts.metrics` keeps in the vendor's order.
_BUILT_IN = {str(fact.vendor_title): name for name, fact in METRICS.items() if fact.vendor_title}


def chosen_algorithms(text: str | None, custom: Iterable[str]) -> tuple[str, ...]:
    """Read what follows ``-alg``.

    Parameters
    ----------
    text : str, optional
        ``all``, or numbers 0 to 9 and names, separated by commas; ``None`` means all.
    custom : iterable of str
        Names of the user's own algorithms. They are part of all, and win over built-in ones of the same name.

    Returns
    -------
    tuple of str
        In the order asked for, each once: ids of `facts.metrics`, and names of the user's algorithms as they are.

    Raises
    ------
    UnknownNameError
        There is no such algorithm; the text lists those there are.
    ConfigError
        None is named.

    Examples
    --------
    >>> chosen_algorithms("0,MaxAbsoluteError,Mine", ["Mine"])
    ('cosine_similarity', 'max_absolute_error', 'Mine')
    """
    known = _known(custom)
    words = [word.strip() for word in (_ALL if text is None else text).split(",")]
    if not any(words):
        raise ConfigError("-alg names no algorithm; leave it out for all of them")
    return tuple(dict.fromkeys(name for word in words for name in _meant(word, known)))


def _known(custom: Iterable[str]) -> dict[str, str]:
    """Name → what it stands for; the user's own in the place of built-in ones of their name, else after them."""
    return _BUILT_IN | {name: name for name in custom}


def _meant(word: str, known: Mapping[str, str], flag: str = "-alg") -> Iterator[str]:
    places = {str(place): name for place, name in enumerate(_BUILT_IN)}
    if word == _ALL and flag == "-alg":
        yield from known.values()
    elif places.get(word, word) in known:
        yield known[places.get(word, word)]
    else:
        listed = ", ".join(f"{place}={name}" for place, name in places.items())
        own = [name for name in known if name not in _BUILT_IN]
        raise UnknownNameError(f"{flag}: unknown algorithm '{word}'; known: {', '.join([listed, *own])}, all")


def passed_arguments(text: str | None, custom: Iterable[str]) -> tuple[dict[str, dict[str, str]], tuple[str, ...]]:
    """Read what follows ``-a``.

    Parameters
    ----------
    text : str, optional
        ``NAME:KEY=VALUE,KEY=VALUE;NAME:KEY=VALUE``; a number stands for a name as in ``-alg``.
    custom : iterable of str
        Names of the user's own algorithms.

    Returns
    -------
    arguments, notes
        By name; and a sentence for each built-in algorithm that something was passed to, since none takes anything.

    Raises
    ------
    ConfigError
        It is not of that form.
    UnknownNameError
        There is no such algorithm.

    Examples
    --------
    >>> passed_arguments("Mine:k=3,j=x", ["Mine"])
    ({'Mine': {'k': '3', 'j': 'x'}}, ())
    """
    own = tuple(custom)
    arguments: dict[str, dict[str, str]] = {}
    notes = []
    for part in filter(None, (part.strip() for part in (text or "").split(";"))):
        name, colon, pairs = part.partition(":")
        values = dict(_pair(pair, part) for pair in pairs.split(","))
        if not colon:
            raise ConfigError(f"-a: {part!r} is not NAME:KEY=VALUE,KEY=VALUE")
        (meant,) = _meant(name.strip(), _known(own), "-a")
        arguments.setdefault(meant, {}).update(values)
        if meant not in own:
            notes.append(f"-a: {name.strip()} is built in and takes no arguments; {', '.join(values)} has no effect")
    return {name: values for name, values in arguments.items() if name in own}, tuple(notes)


def _pair(text: str, whole: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"-a: {whole!r} is not NAME:KEY=VALUE,KEY=VALUE")
    return key.strip(), value
