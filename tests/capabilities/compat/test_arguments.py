"""The vendor's grammar: what is known is read, what is not is refused by name and never passed over."""

from __future__ import annotations

import pytest

from pytest_msdump.capabilities.compat import compare_vector, msaccucmp
from pytest_msdump.capabilities.compat.arguments import Flag, Grammar
from pytest_msdump.core.errors import ConfigError

GRAMMAR = Grammar(
    "prog",
    "Does it.",
    (
        Flag(("-l", "--left"), "left", "the left side", "DIR", required=True),
        Flag(("-r",), "range", "some of it", "RANGE"),
        Flag(("-alg",), "algorithms", "which", "LIST", many=True),
        Flag(("-csv",), "csv", "as CSV"),
    ),
    {"-d": "not yet"},
)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "-l DIR is missing: the left side"),
        (["-l"], "-l: DIR is missing after it"),
        (["-l", "-csv"], "-l: DIR is missing after it"),
        (["-l", "a", "--left", "b"], "--left: given twice"),
        (["-csv", "-csv", "-l", "a"], "-csv: given twice"),
        (["-l", "a", "-left"], "unknown option '-left'; did you mean '--left'?"),
        (["-l", "a", "-cvs"], "unknown option '-cvs'; did you mean '-csv'?"),
        (["-l", "a", "-zzzz"], "unknown option '-zzzz'; known: --left, -alg, -csv, -l, -r"),
        (["-l", "a", "b"], "'b' follows no option"),
        (["-l", "a", "-d", "op"], "-d: not yet"),
        (["-lx"], "unknown option '-lx'; did you mean '-l'?"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_is_near(words, line):
    with pytest.raises(ConfigError) as caught:
        GRAMMAR.parse(words)
    assert line in str(caught.value)


@pytest.mark.parametrize("words", [["-h"], ["-l", "x", "--help"]])
def test_help_tells_every_option(words, capsys):
    with pytest.raises(SystemExit) as caught:
        GRAMMAR.parse(words)
    assert caught.value.code == 0
    text = capsys.readouterr().out
    for flag in GRAMMAR.flags:
        assert flag.names[0] in text
        assert flag.help in " ".join(text.split())


@pytest.mark.parametrize("module", [compare_vector, msaccucmp])
def test_no_two_options_share_a_spelling_or_a_name(module):
    flags = module.GRAMMAR.flags
    spelled = [name for flag in flags for name in flag.names]
    assert len(set(spelled)) == len(spelled)
    assert len({flag.name for flag in flags}) == len(flags)
    assert not set(spelled) & set(module.GRAMMAR.refused)
