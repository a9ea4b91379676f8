"""From an operator to the user's lines, and from a line to its operators."""

from __future__ import annotations

import pytest
from graphs.samples import ROOT, read

from pytest_msdump.capabilities.graphs.source_lines import (
    FrameReader,
    frames_of,
    is_framework,
    operators_at,
    user_frame,
    user_frames,
)
from pytest_msdump.core.model.dump import Operator, OperatorGraph
from pytest_msdump.core.model.tensor import SourceFrame, SourceStack

ODD = read(ROOT / "odd" / "ms_output_trace_code_graph_0.ir")
SITE = "/opt/lib/python3.11/site-packages/mindspore"


def frame(line: str) -> SourceFrame:
    ((stack),) = FrameReader().stacks([line])
    (found,) = stack.frames
    return found


def operator(*frames: SourceFrame, name: str = "a", forward: tuple[SourceFrame, ...] = ()) -> Operator:
    stacks = (SourceStack(frames),) if frames else ()
    return Operator(name, "Add", stacks=(*stacks, SourceStack(forward, is_forward=True)) if forward else stacks)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("# In file net.py(58)/        x = f(x)/", SourceFrame("net.py", 58, "x = f(x)")),
        ("# In file net.py(100)/        x = f(x)/", SourceFrame("net.py", 100, "x = f(x)")),
        ("# In file net.py:58/    def f(x):/", SourceFrame("net.py", 58, "def f(x):")),
        ("# In file net.py:58~60, 4~16/    def f(x):/", SourceFrame("net.py", 58, "def f(x):", 60)),
        ("# In file a b/n:e(1)t.py:5, 4~9/  y/", SourceFrame("a b/n:e(1)t.py", 5, "y")),
        ("# In file C:\\me\\net.py:5, 4~9/  y/", SourceFrame("C:\\me\\net.py", 5, "y")),
        ("# In file /opt/ipykernel_7/2:58, 1~2/  y/", SourceFrame("/opt/ipykernel_7/2", 58, "y")),
        (
            "# In file net.py:5, 4~9/  y = a / b/<~~This line of code can be shared./",
            SourceFrame("net.py", 5, "y = a / b"),
        ),
        ("# inlined:In file net.py:5~6/  y/", SourceFrame("net.py", 5, "y", 6)),
        ("# In file net.py:8103~8145/def relu(x):/", SourceFrame("net.py", 8103, "def relu(x):", 8145)),
    ],
)
def test_places_are_read_in_every_form(line: str, found: SourceFrame) -> None:
    assert frame(line) == found


@pytest.mark.parametrize("line", ["# In file net.py", "# In file :5/x/", "# scope: (Default)", "# In file net.py:x/y/"])
def test_what_is_no_place_is_left_out(line: str) -> None:
    assert FrameReader().stacks([line]) == ()


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        (f"{SITE}/nn/layer/conv.py", True),
        (f"{SITE}/anything_new/x.py", True),
        ("C:\\Python\\Lib\\site-packages\\mindspore\\nn\\cell.py", True),
        ("/home/workspace/mindspore/mindspore/ops/composite/add_impl.py", True),
        ("/src/mindspore/build/package/mindspore/ops/function/math_func.py", True),
        ("/src/mindspore/mindspore/python/mindspore/nn/cell.py", True),
        ("/home/me/mindspore/model_zoo/official/cv/alexnet/src/alexnet.py", False),
        ("/home/me/mindspore/train/net.py", False),
        ("/opt/lib/site-packages/mindformers/models/llama.py", False),
        ("./train_alexnet.py", False),
        ("net.py", False),
    ],
)
def test_the_framework_is_told_from_the_user(path: str, is_own: bool) -> None:
    assert is_framework(path) is is_own


def test_a_definition_is_the_users_line_only_when_there_is_no_call() -> None:
    call = SourceFrame("net.py", 8, "x = self.conv(x)")
    definition = SourceFrame("block.py", 2, "def construct(self, x):", 9)
    assert user_frame(SourceStack((call, definition))) == call
    assert user_frame(SourceStack((definition,))) == definition


def test_own_lines_come_before_those_of_the_forward_operator() -> None:
    own, other = SourceFrame("opt.py", 1, "step()"), SourceFrame("net.py", 2, "x = f(x)")
    assert user_frames(operator(own, forward=(other, other))) == (own, other)
    assert frames_of(operator(own, forward=(other,))) == (own,)
    assert frames_of(operator()) == ()


@pytest.mark.parametrize("where", ["demo/net.py:12", "/srv/demo/net.py:12", "./net.py:12", " net.py:12 "])
def test_leading_directories_may_be_left_out(where: str) -> None:
    assert len(operators_at(ODD, where)) == 2


@pytest.mark.parametrize("where", ["et.py:12", "other/net.py:12", "net.py:120", "", "   ", "net.py:1"])
def test_what_is_not_the_line_finds_nothing(where: str) -> None:
    assert operators_at(ODD, where) == ()


def test_a_piece_of_code_finds_its_operators() -> None:
    assert operators_at(ODD, "self.split(self.conv(x))") == operators_at(ODD, "net.py:12")
    assert operators_at(ODD, "a,  b =\tself.split(self.conv(x))") == operators_at(ODD, "net.py:12")


def test_the_line_of_a_definition_finds_all_that_it_does() -> None:
    assert operators_at(ODD, "net.py:11") == ODD.operators


def test_a_slice_in_code_is_no_place() -> None:
    graph = OperatorGraph((operator(SourceFrame("net.py", 8, "y = x[a:1]")),))
    assert operators_at(graph, "x[a:1") == graph.operators
