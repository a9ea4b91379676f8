"""Names of a dump made safe for the place they are printed or written to: one function for each place.

Names come from dumps, which are not trusted. They may hold control characters that drive a terminal, a line break and a
workflow command behind it, markup, or a formula. Names of ordinary operators stay as they are. JSON files need none of
this: ``json.dumps`` writes ASCII.

References
----------
GitHub Docs, "Workflow commands for GitHub Actions"; the escapes are those of actions/toolkit,
``packages/core/src/command.ts``. OWASP, "CSV Injection". GitHub Flavored Markdown 0.29, code spans and tables.
Bash Reference Manual, "ANSI-C Quoting". TOML 1.0.0, "String".
"""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Commands that a runner of GitHub or Azure finds in a log; also within a line, since lines are wrapped.
_COMMAND = re.compile(
    r"::(?=(?:error|warning|notice|debug|group|endgroup|echo|stop-commands|add-mask|add-matcher|remove-matcher|add-path"
    r"|set-env|set-output|save-state)\b)|##(?=(?:vso)?\[)",
    re.IGNORECASE,
)
_GITHUB_TEXT = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_GITHUB_PROPERTY = {**_GITHUB_TEXT, ":": "%3A", ",": "%2C"}
# The beginning of a formula in a spreadsheet; also in full-width form.
_FORMULA = frozenset("=+-@＝＋－＠")
_SHELL_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", "'": "\\'"}


def terminal_text(text: str) -> str:
    r"""Return a text as one line that a terminal or the log of a job only shows.

    >>> print(terminal_text("a\x1b]8;;b\n::error file=c::d"))
    a\x1b]8;;b\n:\x3aerror file=c::d
    >>> terminal_text("Default/conv1-Conv2d/BiasAdd-op0"), terminal_text("aten::add"), terminal_text("卷积")
    ('Default/conv1-Conv2d/BiasAdd-op0', 'aten::add', '卷积')
    """
    if not text.isprintable():
        text = "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])
    if "::" in text or "##" in text:
        text = _break_commands(text)
    return text


def terminal_lines(text: str) -> str:
    """Return a text of several lines with each made safe; names in it must be safe on one line before."""
    return "\n".join(map(terminal_text, text.split("\n")))


def shell_line(words: Iterable[str]) -> str:
    r"""Return a command that can be pasted into bash or zsh.

    >>> print(shell_line(["pytest", "--msdump-left=my run", "a'b", "x\n\x1b"]))
    pytest '--msdump-left=my run' 'a'"'"'b' $'x\n\x1b'
    """
    return " ".join(map(shell_word, words))


def shell_word(word: str) -> str:
    """Return one word of a command; see `shell_line`."""
    if terminal_text(word) == word:
        return shlex.quote(word)
    return f"$'{_break_commands(''.join(map(_in_shell, word)))}'"


def csv_line(cells: Sequence[str]) -> str:
    r"""Return a line of CSV without its end, its cells quoted where CSV needs it, as Python 3.13 writes them.

    A text that would be a formula begins with an apostrophe; a number does not, whatever its sign.

    >>> print(csv_line(["Conv2D", "[1,16,8,8]", 'an "a" in it', "NaN", "-1.5"]))
    Conv2D,"[1,16,8,8]","an ""a"" in it",NaN,-1.5
    >>> print(csv_line(["=1+1", "@SUM(a,b)", "a\nb"]))
    '=1+1,"'@SUM(a,b)",a\nb
    """
    together = "".join(cells)
    if not together and len(cells) == 1:
        # An empty line would not be a row.
        return '""'
    is_safe = together.isprintable() and "::" not in together and "##" not in together
    # Nearly all cells are quoted for a comma alone.
    if is_safe and '"' not in together and _FORMULA.isdisjoint([cell[:1] for cell in cells]):
        return ",".join([f'"{cell}"' if "," in cell else cell for cell in cells])
    return ",".join(map(_csv_cell, cells))


def _csv_cell(cell: str) -> str:
    cell = terminal_text(cell)
    if cell[:1] in _FORMULA and not _is_number(cell):
        cell = f"'{cell}"
    return '"' + cell.replace('"', '""') + '"' if "," in cell or '"' in cell else cell


def markdown_code(text: str) -> str:
    r"""Return a text as a code span that nothing inside can end, also in a cell of a table.

    >>> print(markdown_code("a|b"), markdown_code("<script>"), markdown_code("a `b` ``c"))
    `a\|b` `<script>` ```a `b` ``c```
    """
    plain = terminal_text(text)
    if "|" in plain:
        # A backslash before a bar would leave the bar free to end the cell.
        plain = "\\x5c|".join(plain.split("\\|")).replace("|", "\\|")
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in plain).split()), default=0)
    fence = "`" * (longest + 1)
    gap = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{gap}{plain}{gap}{fence}"


def html_text(text: str) -> str:
    """Return a text for the content of an element or a quoted attribute."""
    return html.escape(terminal_text(text))


def html_json(values: Any) -> str:
    """Return JSON without characters that are special in HTML, so that it cannot end its element."""
    text = json.dumps(values, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def printed_json(values: Any) -> str:
    """Return JSON for a terminal or the log of a job; parsed, it gives the same values."""
    return _break_commands(json.dumps(values, indent=2, allow_nan=False), "\\u{:04x}")


def github_command(name: str, properties: Mapping[str, str], message: str) -> str:
    """Return a workflow command that its values cannot end. Lines of the message are joined by line breaks."""
    pairs = ",".join(f"{key}={_replaced(value, _GITHUB_PROPERTY)}" for key, value in properties.items())
    return f"::{name} {pairs}::{_replaced(message, _GITHUB_TEXT)}"


def toml_value(value: Any) -> str:
    r"""Return a text, number, truth value or list of these as TOML has it.

    >>> print(toml_value("conv1"), toml_value([0, 3]), toml_value(True), toml_value("a\x7f\u202eb"))
    "conv1" [0, 3] true "a\u007f\u202eb"
    """
    text = _break_commands(json.dumps(value, ensure_ascii=False), "\\u{:04x}")
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"
        for char in text
    )


def _break_commands(text: str, form: str = "\\x{:02x}") -> str:
    """Escape the second character of everything that begins a workflow command."""
    return _COMMAND.sub(lambda found: found[0][0] + form.format(ord(found[0][0])), text)


def _in_shell(char: str) -> str:
    """Return a character as it is written between ``$'`` and ``'``; bytes that are no character stay bytes."""
    if char in _SHELL_ESCAPES:
        return _SHELL_ESCAPES[char]
    if char.isprintable():
        return char
    is_byte = "\udc80" <= char <= "\udcff"
    encoded = char.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
    return "".join([f"\\x{byte:02x}" for byte in encoded])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _replaced(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)
