"""Records that are alike in all but names and numbers: one form for all of them, filled in when text is asked for.

Nearly all pairs of a network pass and have a number for every metric. Of each of these its names are kept as text, and
its numbers as they were measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pytest_msdump.reporting.values import filled
from pytest_msdump.reporting.written import Layout, RecordText, longer, members, places

if TYPE_CHECKING:
    from pytest_msdump.model.pairing import Pair
    from pytest_msdump.model.tensor import TensorSpec

__all__ = ["BETWEEN", "Form", "FormedRecord", "numbers_of"]

# Between sections of a form; JSON in ASCII has none.
BETWEEN = "\n"


class Form:
    """What records have in common that are alike in all but names and numbers.

    Parameters
    ----------
    layout : Layout
        All sections; those of the names come first.
    text : str
        The sections behind the names, `BETWEEN` them, with a ``%s`` for each number.
    order : tuple of int
        Which of a record's numbers stands in each of these places.
    constants : mapping of str to JSON value
        What all of them have.
    counts : tuple of str
        The keys whose values are the first numbers.
    named : mapping of str to (int, tuple of str)
        Of a key whose value is an object of numbers: which number is its first one, and the names.
    lists : mapping of str to tuple of str
        Which of these numbers are several.
    specs : (TensorSpec, TensorSpec), optional
        What the files of both sides held, in the process that compared them.
    """

    __slots__ = (
        "constants",
        "counts",
        "joined",
        "known",
        "layout",
        "lists",
        "named",
        "order",
        "specs",
        "text",
        "values",
    )

    def __init__(
        self,
        layout: Layout,
        text: str,
        order: tuple[int, ...],
        constants: Mapping[str, Any],
        counts: tuple[str, ...],
        named: Mapping[str, tuple[int, tuple[str, ...]]],
        lists: Mapping[str, tuple[str, ...]],
        specs: tuple[TensorSpec, TensorSpec] | None = None,
    ) -> None:
        self.layout, self.text, self.order, self.constants, self.specs = layout, text, order, constants, specs
        self.counts, self.named, self.lists = counts, named, lists
        self.known = ("order", *constants, *counts, *named)
        self.values, self.joined = itemgetter(*order), text.replace(BETWEEN, ", ")

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.layout, self.text, self.order, self.constants, self.counts, self.named, self.lists)
        return _form_of, fields

    def value(self, key: str, numbers: tuple[Any, ...]) -> Any:
        """Return what a record with these numbers has of a key of `counts` or of `named`."""
        if key not in self.named:
            return numbers[self.counts.index(key)]
        first, names = self.named[key]
        found = dict(zip(names, numbers[first : first + len(names)], strict=True))
        for name in self.lists.get(key, ()):
            found[name] = list(found[name])
        return found


# Forms that other processes sent, by what they say.
_SENT: dict[str, Form] = {}
_MOST_SENT = 1024


def _form_of(*fields: Any) -> Form:
    """Return the form with these fields: one for all records that arrive with it, batch by batch."""
    told = repr(fields[1:])
    form = _SENT.get(told)
    if form is None or form.layout is not fields[0]:
        if len(_SENT) >= _MOST_SENT:
            _SENT.clear()
        form = _SENT[told] = Form(*fields)
    return form


class FormedRecord(RecordText):
    """A record that is written when its text is asked for.

    Parameters
    ----------
    form : Form
        What it shares with others.
    order : int
        The value of the key `order`.
    names : tuple of str
        The text of its first sections.
    numbers : tuple
        As `form` counts them.
    more : mapping of str to JSON value, optional
        Further keys, behind all others.
    pair : Pair, optional
        What was compared, in the process that did it: who asks for names need not parse their text then.
    """

    __slots__ = ("_form", "_more", "_names", "_numbers", "_order", "pair")

    def __init__(
        self,
        form: Form,
        order: int,
        names: tuple[str, ...],
        numbers: tuple[Any, ...],
        more: Mapping[str, Any] | None = None,
        pair: Pair | None = None,
    ) -> None:
        self._form, self._order, self._names, self._numbers, self._more = form, order, names, numbers, more
        self.pair = pair

    def __reduce__(self) -> tuple[Any, ...]:
        return FormedRecord, (self._form, self._order, self._names, self._numbers, self._more)

    @property
    def form(self) -> Form:
        """What it shares with others."""
        return self._form

    @property
    def line(self) -> str:
        """The record as results.json has it."""
        form, more = self._form, f", {members(self._more)}" if self._more else ""
        return f"{{{', '.join(self._names)}, {filled(form.joined, form.values(self._numbers))}{more}}}"

    def __getitem__(self, key: str) -> Any:
        form, more = self._form, self._more
        if key in form.constants:
            return form.constants[key]
        if more and key in more:
            return more[key]
        if key == "order":
            return self._order
        if key in form.known:
            return form.value(key, self._numbers)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return key in self._form.layout.places or (self._more is not None and key in self._more)

    def sections_of(self, keys: tuple[str, ...]) -> list[str]:
        """Return the text that has these keys, but for what is known without parsing it."""
        wanted, *_ = _asked(self._form, keys)
        sections = self._sections if wanted and wanted[-1] >= len(self._names) else self._names
        return [sections[number] for number in wanted]

    def opened(self, parsed: Iterable[Mapping[str, Any]], keys: tuple[str, ...]) -> dict[str, Any]:
        """Return what the record has of these keys, and what was parsed of it."""
        form, numbers = self._form, self._numbers
        _, constants, measured, has_order = _asked(form, keys)
        found = constants.copy()
        for key in measured:
            found[key] = form.value(key, numbers)
        for values in parsed:
            found.update(values)
        if has_order:
            found["order"] = self._order
        if self._more:
            found.update(self._more)
        return found

    def numbers_of(self, keys: tuple[str, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
        """Return what the function of this name does."""
        return _chosen(self._form, keys, names)(self._numbers)

    def _longer(self, more: Mapping[str, Any]) -> FormedRecord:
        all_more = {**self._more, **more} if self._more else more
        return FormedRecord(self._form, self._order, self._names, self._numbers, all_more, self.pair)

    # What all records have, for who does not know the shorter ways above.

    @property
    def _layout(self) -> Layout:  # type: ignore[override]
        return longer(self._form.layout, tuple(self._more)) if self._more else self._form.layout

    @property
    def _sections(self) -> Sequence[str]:  # type: ignore[override]
        more = (members(self._more),) if self._more else ()
        text = filled(self._form.text, self._form.values(self._numbers))
        return (*self._names, *text.split(BETWEEN), *more)

    @property
    def _told(self) -> Mapping[str, Any]:  # type: ignore[override]
        return self.opened((), self._form.known)


def numbers_of(record: Mapping[str, Any], keys: tuple[str, ...], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return numbers of a record by their names.

    Parameters
    ----------
    record : mapping
        An entry of `tensors`.
    keys : tuple of str
        Those whose values are objects of numbers; if several have a name, the last of them counts.
    names : tuple of str
        Whose numbers are wanted.

    Returns
    -------
    tuple
        JSON values, but several numbers may be a tuple; ``None`` where there is nothing of that name.
    """
    if isinstance(record, FormedRecord):
        return record.numbers_of(keys, names)
    found: dict[str, Any] = {}
    for key in keys:
        found.update(record[key])
    return tuple(map(found.get, names))


@lru_cache(maxsize=1024)
def _chosen(form: Form, keys: tuple[str, ...], names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes these numbers out of those of a record."""
    known: dict[str, int] = {}
    for first, named in (form.named[key] for key in keys):
        known.update(zip(named, range(first, first + len(named)), strict=True))
    if known.keys() >= set(names) and names:
        # Of a slice there is a tuple also of one.
        first = known[names[0]]
        return itemgetter(*[known[name] for name in names]) if len(names) > 1 else itemgetter(slice(first, first + 1))
    places = [known.get(name) for name in names]
    return lambda numbers: tuple([None if place is None else numbers[place] for place in places])


# A few keys are asked for of very many records.
@lru_cache(maxsize=1024)
def _asked(form: Form, keys: tuple[str, ...]) -> tuple[tuple[int, ...], dict[str, Any], tuple[str, ...], bool]:
    """Divide keys: sections that tell them, what all records have, what was measured, and whether `order` is asked."""
    constants = {key: value for key, value in form.constants.items() if key in keys}
    measured = tuple(key for key in (*form.counts, *form.named) if key in keys)
    return places(form.layout, form.known, keys), constants, measured, "order" in keys
