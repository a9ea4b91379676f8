"""Random nets of any names: a net, and a copy of it with layers dropped, added, swapped and renamed.

python -m benchmarks.strangers.random_nets OUT --nets 500    makes folders that judge.py judges
"""

from __future__ import annotations

import argparse
import copy
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import torch
from torch import nn

from .folders import write
from .held_out_styles import HELD_OUT_STYLES
from .mistakes import MISTAKES, NoPlaceError
from .recording import added, mark_origins, origin_of, record
from .styles import STYLES
from .tensors import Recording
from .truth import Meaning, Truth, truth_of

__all__: list[str] = []

_WIDTHS = (8, 12, 16)
_GIVEN = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3))
_KINDS: dict[str, tuple[str, ...]] = {
    "Linear": ("fc", "linear", "dense", "proj", "q", "k", "v", "out", "w1", "w2", "up", "down"),
    "LayerNorm": ("norm", "ln", "norm1", "norm2", "layernorm"),
    "ReLU": ("act", "relu", "act1"),
    "Tanh": ("act", "tanh", "squash"),
    "GELU": ("act", "gelu"),
    "Tree": ("block", "mlp", "attn", "stage", "encoder", "branch", "cell", "unit"),
}
_SYLLABLES = ("ba", "ko", "mi", "tru", "zen", "lo", "quar", "fi", "dex", "um")
_ALL = tuple(dict.fromkeys(word for words in _KINDS.values() for word in words))


class Tree(nn.Module):
    """Its children, one behind the other; with a shortcut where that is possible."""

    def __init__(self, *, has_shortcut: bool) -> None:
        super().__init__()
        self.has_shortcut = has_shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        given = x
        for child in self.children():
            x = child(x)
        return x + given if self.has_shortcut and x.shape == given.shape else x


def net_of(draw: Random) -> Tree:
    """Return a random net; names of its layers fit them, say something else, or nothing."""
    name = _names(draw)
    net = Tree(has_shortcut=False)
    width = 8
    for _ in range(draw.randrange(1, 4)):
        if draw.random() < 0.5:
            blocks, (block, inner) = Tree(has_shortcut=False), _block(draw, width, width, name)
            for number in range(draw.randrange(2, 5)):
                blocks.add_module(str(number), copy.deepcopy(block))
        else:
            blocks, inner = _block(draw, width, draw.choice(_WIDTHS), name)
        width = inner
        net.add_module(_free(net, name("Tree")), blocks)
    net.add_module(_free(net, name("Linear")), nn.Linear(width, draw.choice(_WIDTHS)))
    with torch.no_grad():
        for value in net.parameters():
            value.copy_(torch.randn(value.shape, generator=torch.Generator().manual_seed(draw.randrange(2**31))) / 2)
    return net


def _block(draw: Random, width: int, wanted: int, name: Callable[[str], str], depth: int = 0) -> tuple[Tree, int]:
    """Return layers that take one width and give another."""
    block = Tree(has_shortcut=draw.random() < 0.4)
    for _ in range(draw.randrange(2, 6)):
        kind = draw.choice(["Linear", "Linear", *_KINDS])
        layer: nn.Module
        if kind == "Tree":
            if depth == 2:
                continue
            layer, width = _block(draw, width, draw.choice(_WIDTHS), name, depth + 1)
        elif kind == "Linear":
            inner = draw.choice(_WIDTHS)
            layer, width = nn.Linear(width, inner), inner
        else:
            layer = nn.LayerNorm(width) if kind == "LayerNorm" else getattr(nn, kind)()
        block.add_module(_free(block, name(kind)), layer)
    if width != wanted:
        block.add_module(_free(block, name("Linear")), nn.Linear(width, wanted))
    return block, wanted


def _names(draw: Random) -> Callable[[str], str]:
    way = draw.choice(("fitting", "fitting", "any", "nonsense", "numbers"))
    if way == "fitting":
        return lambda kind: draw.choice(_KINDS[kind])
    if way == "any":
        return lambda _: draw.choice(_ALL)
    if way == "nonsense":
        return lambda _: _nonsense(draw)
    return lambda _: "0"


def _nonsense(draw: Random) -> str:
    return "".join(draw.choices(_SYLLABLES, k=draw.randrange(2, 4)))


def _free(parent: nn.Module, name: str) -> str:
    """Return a name that a module has no child of, with a number behind it if need be."""
    stem, number = ("", 0) if name == "0" else (name, 1)
    while name in parent._modules:
        name, number = f"{stem}{number}", number + 1
    return name


# -- What is done to the copy: each returns the modules of which nothing can be said then


def _swap(net: nn.Module, draw: Random) -> Iterator[nn.Module]:
    """Let two neighbours of one width change places. Where they are alike, only their names say which is which."""
    trees = [tree for tree in net.modules() if isinstance(tree, Tree)]
    places = [
        (tree, number)
        for tree in trees
        for number, (one, other) in enumerate(pairwise(tree.children()), 1)
        if _keeps_width(one)
        and _keeps_width(other)
        and (_width(one) == _width(other) or None in (_width(one), _width(other)))
    ]
    if not places:
        raise NoPlaceError
    tree, number = draw.choice(places)
    children = [*tree._modules.items()]
    first, second = children[number - 1], children[number]
    if first[0].isdigit():
        first, second = (first[0], second[1]), (second[0], first[1])
        children[number - 1 : number + 1] = [first, second]
    else:
        children[number - 1 : number + 1] = [second, first]
    tree._modules.clear()
    tree._modules.update(children)
    if type(first[1]) is type(second[1]):
        yield from (*first[1].modules(), *second[1].modules())


def _width(module: nn.Module) -> int | None:
    """Return what a module takes; ``None`` where any width will do."""
    if isinstance(module, nn.Linear):
        return module.in_features
    if isinstance(module, nn.LayerNorm):
        return int(module.normalized_shape[0])
    return next((width for child in module.children() if (width := _width(child)) is not None), None)


def _keeps_width(module: nn.Module) -> bool:
    given = _width(module)
    if given is None:
        return True
    with torch.no_grad():
        return int(module(torch.zeros(1, given)).shape[-1]) == given


def _drop(net: nn.Module, draw: Random) -> Iterator[nn.Module]:
    """Leave out a layer that keeps the width."""
    places = [(tree, name) for tree in net.modules() if isinstance(tree, Tree)
              for name, child in tree.named_children() if len(tree._modules) > 1 and _keeps_width(child)]  # fmt: skip
    if not places:
        raise NoPlaceError
    tree, name = draw.choice(places)
    kept = [item for item in tree._modules.items() if item[0] != name]
    tree._modules.clear()
    tree._modules.update((str(place) if key.isdigit() else key, child) for place, (key, child) in enumerate(kept))
    return iter(())


def _add(net: nn.Module, draw: Random) -> Iterator[nn.Module]:
    """Put in a layer, or a copy of one that keeps the width, somewhere."""
    tree = draw.choice([tree for tree in net.modules() if isinstance(tree, Tree)])
    children = [*tree._modules.items()]
    place = draw.randrange(len(children) + 1)
    alike = [child for _, child in children[place - 1 : place] if child is not None and _keeps_width(child)]
    new = added(copy.deepcopy(alike[0]) if alike and draw.random() < 0.5 else nn.Tanh())
    is_numbered = children[0][0].isdigit()
    children.insert(place, ("" if is_numbered else _free(tree, draw.choice((*_ALL, _nonsense(draw)))), new))
    tree._modules.clear()
    tree._modules.update((str(number) if is_numbered else key, child) for number, (key, child) in enumerate(children))
    return iter(())


CHANGES = {"swapped": _swap, "dropped": _drop, "added": _add}


def renamed(paths: list[str], draw: Random) -> dict[str, str]:
    """Return new paths of modules: some words are other words everywhere, some modules have a name of their own."""
    words = sorted({part for path in paths for part in path.split(".") if not part.isdigit()})
    share = draw.choice((0.0, 0.3, 1.0))
    pool = draw.choice((_ALL, [_nonsense(draw) for _ in range(40)]))
    table: dict[str, str] = {}
    for word in words:
        new = draw.choice(pool) if draw.random() < share else word
        table[word] = new if new not in table.values() and (new == word or new not in words) else word
    own = {path: draw.choice(pool) + str(number) for number, path in enumerate(paths) if draw.random() < share / 5}
    found: dict[str, str] = {}
    for path in paths:
        above, _, name = path.rpartition(".")
        new = own.get(path, table.get(name, name))
        found[path] = f"{found[above]}.{new}" if above else new
    return found


def make(out: Path, nets: int, seed: int) -> None:
    """Make folders and their truth."""
    shutil.rmtree(out, ignore_errors=True)
    # Counted from 1, a layer has the very name that the next one has on the other side.
    styles = [style for style in (*STYLES.values(), *HELD_OUT_STYLES.values()) if style.name != "from_one"]
    number = attempt = 0
    while number < nets:
        draw = Random(f"{seed}/{attempt}")
        attempt += 1
        net = net_of(draw)
        left = copy.deepcopy(net)
        mark_origins(left)
        changes = draw.sample([*CHANGES], draw.choice((0, 1, 1, 2, 3)))
        unknown: set[str] = set()
        try:
            for change in changes:
                unknown |= {origin_of(one, "") for one in CHANGES[change](left, draw)}
            if draw.random() < 0.3:
                MISTAKES["scaled_weight"](left, draw)
            right_tensors, left_tensors = _recorded(net), _recorded(left)
        except (NoPlaceError, RuntimeError):  # There is no such layer, or what was moved does not fit.
            continue
        names = renamed([path for path, _ in left.named_modules() if path], draw)
        moved = Recording(tuple(one._replace(path=names[one.path]) for one in left_tensors.tensors))
        what = "-".join(changes) or ("good" if all(old == new for old, new in names.items()) else "renamed")
        folder = out / f"{number:03}-random-{what}"
        styles_of = [draw.choice(styles), draw.choice(styles)]
        keys = [write(one.tensors, style, folder / side, start=draw.randrange(10**9))
                for one, style, side in zip((moved, right_tensors), styles_of, ("left", "right"),
                strict=True)]  # fmt: skip
        truth = Truth("random", "torch", what, styles_of[0].name, styles_of[1].name)
        truth_of(truth, _meaning(moved, right_tensors, unknown), keys[0], keys[1])
        places = {(one.path, one.call): key for key, one in keys[1].items()}
        called = [(key, places.get((one.path, one.call))) for key, one in keys[0].items()]
        truth.namesakes += [[key, other] for key, other in called if other and [key, other] not in truth.pairs]
        truth.write(folder / "truth.json")
        number += 1


def _recorded(net: nn.Module) -> Recording:
    with torch.no_grad():
        return record(net.eval(), lambda model: model(_GIVEN))


def _meaning(left: Recording, right: Recording, unknown: set[str]) -> Meaning:
    """Return what is the same: the modules themselves, wherever they are now and whatever they are called."""
    rights = {one.label: frozenset({group[0].label}) for group in right.groups() for one in group}
    lefts: dict[str, frozenset[str]] = {}
    for group in left.groups():
        means: frozenset[str] = frozenset().union(
            *(rights.get(one.label, ()) for one in group if one.label not in unknown)
        )
        lefts.update((one.label, means or frozenset({f"left {group[0].label}"})) for one in group)
    return Meaning(lefts, rights, unjudged=frozenset(unknown))


def main() -> int:
    """Make the folders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of the pairs; what it holds is replaced")
    parser.add_argument("--nets", type=int, default=500, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the draw (default: %(default)s)")
    arguments = parser.parse_args()
    make(arguments.out, arguments.nets, arguments.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
