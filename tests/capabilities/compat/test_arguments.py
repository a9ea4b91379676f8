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
        Flag(("-n", "--top_n"), "top", "so many", "N", choices=("1", "2")),
        Flag(("-o", "--output_tensor"), "output", "one output", "K"),
        Flag(("-out", "--output"), "out", "where", "DIR"),
    ),
    {"-d": "not yet", "--days": "not yet"},
    ("range", "output"),
)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--left=a=b", "-r=1,2"], {"left": "a=b", "range": "1,2"}),
        (["--le", "a", "--top=2", "--output=c"], {"left": "a", "top": "2", "out": "c"}),
        (["-l", "a", "-n2", "-o0"], {"left": "a", "top": "2", "output": "0"}),
        (["-l", "a", "-r1,3"], {"left": "a", "range": "1,3"}),
    ],
)
def test_options_are_read_as_the_vendors_programs_read_them(words, values):
    assert GRAMMAR.parse(words).values == values


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
        (
            ["-l", "a", "-zzzz"],
            "unknown option '-zzzz'; known: --left, --output, --output_tensor, --top_n, -alg, -csv, -l, -n, -o",
        ),
        (["-l", "a", "b"], "'b' follows no option"),
        (["-l", "a", "-d", "op"], "-d: not yet"),
        (["-l", "a", "--day=3"], "--days: not yet"),
        (["-l", "a", "-n", "3"], "-n 3: give 1 or 2"),
        (["-l", "a", "--outp", "b"], "--outp may be --output_tensor or --output; write it in full"),
        (["-l", "a", "-r", "1", "-o", "2"], "-r and -o do not go together; leave one of them out"),
        (["-l", "a", "-csv=yes"], "-csv takes no value; leave '=yes' out"),
        (["-l", "a", "--"], "unknown option '--'"),
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
