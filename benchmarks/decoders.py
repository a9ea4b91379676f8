"""What is said of 40 mistakes in three small decoders, and of runs that are sound but rounded in another way.

python benchmarks/decoders.py                  each mistake with what is said of the first tensors that differ
python benchmarks/decoders.py --seeds 5        other weights and ids
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_msdump.capabilities.diagnosis.diagnose import diagnose
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.dtypes.decode import rounded_to
from pytest_msdump.core.model.record import Diagnosis
from pytest_msdump.core.text import Message, say

Array = npt.NDArray[Any]
WIDTH, HEADS, KEYS, BATCH, LENGTH, WORDS = 32, 4, 2, 2, 12, 50
HEAD = WIDTH // HEADS
# What tensors a recording of modules has; of operations it has all.
MODULES = ("embed", "norm", "q_proj", "k_proj", "v_proj", "qkv", "joined", "attention", "mlp", "block", "head")


class Mistake(NamedTuple):
    """One line that is wrong: in which kinds of decoder, and the sentences that point to it, or may be said of it."""

    name: str
    kinds: str
    codes: str


# Besides these, where a drift is may always be said, without a hint.
MISTAKES = tuple(
    Mistake(*row)
    for row in (
        ("rope in pairs", "llama moe", "turned_in_pairs points_to_positions"),
        ("rope of another base", "llama moe", "turned_by_speed points_to_positions"),
        ("rope scaled", "llama moe", "turned_by_speed points_to_positions"),
        ("rope turned back", "llama moe", "turned_by_speed points_to_positions"),
        ("rope begins at 1 for queries", "llama moe", "turned_by_offset points_to_positions"),
        ("rope left out", "llama moe", "turned_by_speed points_to_positions"),
        ("rope of keys alone left out", "llama moe", "turned_by_speed points_to_positions"),
        ("rope restarts at 6", "llama moe", "turned_by_token points_to_cache"),
        ("positions begin at 1", "gpt2", "axis_shift_behind"),
        ("positions of the padded row", "gpt2", "points_to_positions"),
        ("positions restart at 6", "gpt2", "points_to_cache"),
        ("scale left out", "llama gpt2 moe", "left_is_scaled points_to_positions"),
        ("scale by width", "llama gpt2 moe", "left_is_scaled points_to_positions"),
        ("mask left out", "llama gpt2 moe", "points_to_mask"),
        ("mask lets the next through", "llama gpt2 moe", "points_to_mask"),
        ("mask hides itself", "llama gpt2 moe", "points_to_positions"),
        ("window of 5", "llama gpt2 moe", "points_to_cache"),
        ("cache forgets what is before 6", "llama gpt2 moe", "points_to_cache"),
        ("cache of values late by one from 6", "llama gpt2 moe", "points_to_cache"),
        ("heads in turn", "llama moe", "heads_in_turn points_to_repeat"),
        ("values in turn", "llama moe", "heads_in_turn points_to_repeat"),
        ("heads 1 and 2 exchanged", "llama gpt2 moe", "blocks_exchanged slices_exchanged"),
        ("heads not joined", "llama gpt2 moe", "heads_not_joined"),
        ("heads not split", "llama gpt2 moe", "axes_in_other_order"),
        ("q, k, v by head", "gpt2", "parts_by_head"),
        ("k, q, v", "gpt2", "blocks_exchanged"),
        ("v, q, k", "gpt2", "blocks_in_order"),
        ("halves of heads exchanged", "llama", "halves_exchanged"),
        ("weights of q in pairs", "llama", "pairs_to_halves halves_to_pairs"),
        ("every second channel of v", "llama gpt2 moe", "every_index"),
        ("gate and up exchanged", "llama moe", "blocks_exchanged"),
        ("gelu for silu", "llama moe", ""),
        ("residual doubled", "llama gpt2 moe", ""),
        ("residual left out", "llama gpt2 moe", ""),
        ("embedding scaled", "llama gpt2 moe", "left_is_scaled"),
        ("logits scaled", "llama gpt2 moe", "left_is_scaled"),
        ("last token of another sequence", "llama gpt2 moe", "index_of_axis"),
        ("softmax over queries", "llama gpt2 moe", "default_softmax"),
        ("epsilon of the norm", "llama gpt2 moe", ""),
        ("one expert", "moe", ""),
        ("expert 1 wrong", "moe", ""),
        ("ids shifted by one", "llama gpt2 moe", "axis_shift_before axis_shift_behind"),
        ("attention left out in sequence 1", "llama gpt2 moe", "only_part_differs index_of_axis"),
    )
)


class Decoder:
    """A decoder of one block and a half; `seen` has what a recorder would see, in the order of the run."""

    def __init__(self, kind: str, mistake: str = "", seed: int = 0, rounding: str = "", order: int = 1) -> None:
        self.kind, self.mistake, self.rounding, self.order = kind, mistake, rounding, order
        self.draw = np.random.default_rng(seed)
        self.seen: dict[str, Array] = {}
        self.run()

    def at(self, name: str) -> bool:
        """Whether the line that follows is wrong in this run."""
        return self.mistake == name

    def see(self, name: str, values: Array) -> Array:
        """Record a tensor, rounded as the run rounds."""
        values = values.astype("f4")
        if self.rounding:
            values = rounded_to(values.astype("f8"), self.rounding).astype("f4")
        self.seen[f"{self.layer}.{name}"] = values
        return values

    def weight(self, *shape: int) -> Array:
        """Draw a weight."""
        return (self.draw.normal(size=shape) * 2 / np.sqrt(shape[0])).astype("f4")

    def product(self, one: Array, other: Array) -> Array:
        """Multiply matrices; terms are added in this run's order."""
        return one[..., :: self.order] @ other[..., :: self.order, :]

    def run(self) -> None:
        """Run the model."""
        self.layer = "model"
        ids = self.draw.integers(1, WORDS, (BATCH, LENGTH))
        table, places = self.weight(WORDS, WIDTH) * 3, self.weight(64, WIDTH) * 3
        if self.at("ids shifted by one"):
            ids = np.roll(ids, 1, 1)
        x = table[ids] * (4 if self.at("embedding scaled") else 1)
        if self.kind == "gpt2":
            numbers = np.arange(LENGTH) + self.at("positions begin at 1")
            if self.at("positions restart at 6"):
                numbers[6:] -= 6
            of_rows = np.stack(
                (numbers, np.maximum(numbers - 3, 0) if self.at("positions of the padded row") else numbers)
            )
            self.see("wpe", places[of_rows])
            x = x + places[of_rows]
        x = self.see("embed", x)
        for number in range(2):
            self.layer = f"layers.{number}"
            is_wrong, name = number == 1, self.mistake
            self.mistake = name if is_wrong or self.is_outside(name) else ""
            x = self.block(x)
            self.mistake = name
        self.layer = "model"
        x = self.norm("norm", x)
        self.see("head", self.product(x / 2 if self.at("logits scaled") else x, self.weight(WIDTH, WORDS)))

    @staticmethod
    def is_outside(name: str) -> bool:
        """Whether a mistake is made outside of the blocks."""
        return name.startswith(("embedding", "logits", "ids", "positions"))

    def norm(self, name: str, x: Array) -> Array:
        """Normalise: RMSNorm, or LayerNorm of GPT-2."""
        gain = self.draw.random(WIDTH).astype("f4") + 0.5
        if self.kind == "gpt2":
            x = x - x.mean(-1, keepdims=True)
        mean = np.square(x)[..., :: self.order].mean(-1, keepdims=True)
        return self.see(name, x / np.sqrt(mean + (0.5 if self.at("epsilon of the norm") else 1e-6)) * gain)

    def block(self, x: Array) -> Array:
        """Attention, then feed-forward."""
        y = self.attention(self.norm("n1", x))
        if self.at("attention left out in sequence 1"):
            y[1] = 0
        x = self.see(
            "residual", y if self.at("residual left out") else x + y * (2 if self.at("residual doubled") else 1)
        )
        y = self.experts(self.norm("n2", x)) if self.kind == "moe" else self.mlp(self.norm("n2", x), "mlp")
        x = x + y
        if self.at("last token of another sequence"):
            x[:, -1] = x[::-1, -1]
        return self.see("block", x)

    def mlp(self, x: Array, name: str) -> Array:
        """Feed-forward layer, gated but in GPT-2."""
        if self.kind == "gpt2":
            up = self.see(f"{name}.up", self.product(x, self.weight(WIDTH, 2 * WIDTH)))
            y = self.see(f"{name}.act", gelu(up))
        else:
            both = self.see(f"{name}.gate_up", self.product(x, self.exchanged_gate(self.weight(WIDTH, 4 * WIDTH))))
            gate, up = both[..., : 2 * WIDTH], both[..., 2 * WIDTH :]
            act = gelu if self.at("gelu for silu") else silu
            y = self.see(f"{name}.act", act(gate) * up)
        return self.see(name, self.product(y, self.weight(2 * WIDTH, WIDTH)))

    def exchanged_gate(self, weight: Array) -> Array:
        """Return the weight of gate and up, in the order of this run."""
        return np.roll(weight, 2 * WIDTH, 1) if self.at("gate and up exchanged") else weight

    def experts(self, x: Array) -> Array:
        """Return the sum over two of four experts."""
        scores = self.see("router", self.product(x, self.weight(WIDTH, 4)))
        best = np.sort(scores, -1)[..., -1 if self.at("one expert") else -2][..., None]
        chosen = np.where(scores >= best, np.exp(scores), 0)
        shares = chosen / chosen.sum(-1, keepdims=True)
        y = np.zeros_like(x)
        for number in range(4):
            own = self.mlp(x, f"experts.{number}")
            y = y + shares[..., number : number + 1] * (own * 2 if number == 1 and self.at("expert 1 wrong") else own)
        return self.see("mlp", y)

    def attention(self, x: Array) -> Array:
        """Return causal attention."""
        keys = HEADS if self.kind == "gpt2" else KEYS
        if self.kind == "gpt2":
            weight = self.weight(WIDTH, 3 * WIDTH)
            if self.at("q, k, v by head"):
                weight = weight.reshape(WIDTH, 3, HEADS, HEAD).swapaxes(1, 2).reshape(WIDTH, -1)
            for name, order in (("k, q, v", [1, 0, 2]), ("v, q, k", [2, 0, 1])):
                if self.at(name):
                    weight = weight.reshape(WIDTH, 3, WIDTH)[:, order].reshape(WIDTH, -1)
            q, k, v = np.split(self.see("attn.qkv", self.product(x, weight)), 3, -1)
        else:
            own = self.weight(WIDTH, WIDTH)
            if self.at("weights of q in pairs"):
                own = own.reshape(WIDTH, HEADS, 2, -1).swapaxes(-1, -2).reshape(WIDTH, WIDTH)
            if self.at("halves of heads exchanged"):
                own = own.reshape(WIDTH, HEADS, 2, -1)[:, :, ::-1].reshape(WIDTH, WIDTH)
            q = self.see("attn.q_proj", self.product(x, own))
            k = self.see("attn.k_proj", self.product(x, self.weight(WIDTH, keys * HEAD)))
            v = self.product(x, self.weight(WIDTH, keys * HEAD))
        if self.at("every second channel of v"):
            v = np.where(np.arange(v.shape[-1]) % 2 == 1, -0.7 * v + 0.1, v)
        v = self.see("attn.v_proj", v)
        q, k, v = (
            self.see(f"attn.{name}_heads", self.split(one, n))
            for name, one, n in (("q", q, HEADS), ("k", k, keys), ("v", v, keys))
        )
        if self.kind != "gpt2":
            q, k = self.see("attn.q_rope", self.rope(q, "q")), self.see("attn.k_rope", self.rope(k, "k"))
            times = HEADS // keys
            in_turn = self.at("heads in turn")
            k = self.see("attn.k_all", np.tile(k, (1, times, 1, 1)) if in_turn else np.repeat(k, times, 1))
            in_turn = in_turn or self.at("values in turn")
            v = self.see("attn.v_all", np.tile(v, (1, times, 1, 1)) if in_turn else np.repeat(v, times, 1))
        return self.weighted(q, k, v)

    def split(self, x: Array, heads: int) -> Array:
        """Return heads before tokens."""
        if self.at("heads not split"):
            return x.reshape(BATCH, heads, LENGTH, HEAD)
        found: Array = x.reshape(BATCH, LENGTH, heads, HEAD).swapaxes(1, 2)
        return found

    def weighted(self, q: Array, k: Array, v: Array) -> Array:
        """Return the output of attention."""
        scale = 1.0 if self.at("scale left out") else WIDTH**-0.5 if self.at("scale by width") else HEAD**-0.5
        scores = self.see("attn.scores", self.product(q, k.swapaxes(-1, -2)) * np.float32(scale))
        query, key = np.arange(LENGTH)[:, None], np.arange(LENGTH)
        shift = 1 if self.at("mask lets the next through") else -1 if self.at("mask hides itself") else 0
        is_seen = (key <= query + shift) | self.at("mask left out") | ((key == 0) & (query == 0))
        if self.at("window of 5"):
            is_seen &= key > query - 5
        if self.at("cache forgets what is before 6"):
            is_seen &= (key >= 6) | (query < 6)
        weights = np.exp(scores - scores.max(-1, keepdims=True)) * is_seen
        weights = self.see(
            "attn.softmax", weights / weights.sum(-2 if self.at("softmax over queries") else -1, keepdims=True)
        )
        y = self.product(weights, v)
        if self.at("cache of values late by one from 6"):
            y[:, :, 6:] = self.product(weights, np.roll(v, 1, 2))[:, :, 6:]
        if self.at("heads 1 and 2 exchanged"):
            y = y[:, [0, 2, 1, 3]]
        y = self.see("attn.context", y)
        y = (y if self.at("heads not joined") else y.swapaxes(1, 2)).reshape(BATCH, LENGTH, WIDTH)
        y = self.see("attn.o_proj:input", y)
        return self.see("attn", self.product(y, self.weight(WIDTH, WIDTH)))

    def rope(self, x: Array, which: str) -> Array:
        """Turn queries or keys by their places."""
        if self.at("rope left out") or (which == "k" and self.at("rope of keys alone left out")):
            return x
        base = 500.0 if self.at("rope of another base") else 10000.0
        steps = np.arange(LENGTH) * (0.5 if self.at("rope scaled") else -1 if self.at("rope turned back") else 1)
        if self.at("rope restarts at 6"):
            steps[6:] -= 6
        steps = steps + (which == "q" and self.at("rope begins at 1 for queries"))
        angles = steps[:, None] * base ** (-np.arange(HEAD // 2) * 2 / HEAD)
        if self.at("rope in pairs"):
            turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)
            return np.stack((turned.real, turned.imag), -1).reshape(x.shape)
        turned = (x[..., : HEAD // 2] + 1j * x[..., HEAD // 2 :]) * np.exp(1j * angles)
        return np.concatenate((turned.real, turned.imag), -1)


def silu(x: Array) -> Array:
    """SiLU."""
    found: Array = x / (1 + np.exp(-x))
    return found


def gelu(x: Array) -> Array:
    """GELU by tanh."""
    found: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return found


def codes_of(message: Message) -> Iterator[str]:
    """Yield the codes of a message and of those in it."""
    yield message.code
    for value in message.parameters.values():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Message):
                yield from codes_of(one)


class Answer(NamedTuple):
    """What is said of the first tensor that differs: its name, the diagnosis, whether it points to the mistake."""

    tensor: str
    diagnosis: Diagnosis | None
    is_right: bool
    is_wrong: bool


def first_that_differ(left: Decoder, right: Decoder, level: str) -> Iterator[tuple[str, Array, Array]]:
    """Yield the tensors of a recording that differ by more than 1e-3, in the order of the run."""
    for name, ours in left.seen.items():
        theirs = right.seen[name]
        is_recorded = level == "operations" or name.rpartition(".")[2] in MODULES or name.endswith(("attn", ":input"))
        if is_recorded and np.linalg.norm(ours - theirs) > 1e-3 * np.linalg.norm(theirs):
            yield name, ours, theirs


def said_of(name: str, left: Array, right: Array) -> Diagnosis | None:
    """Return the one sure diagnosis, if there is one."""
    found = diagnose(ArrayView(left), ArrayView(right), operator=name)
    return next((one for one in found if one.confidence == "high"), None)


# What says where a drift is and accuses nothing.
NEUTRAL = {
    *("only_part_differs", "from_index", "every_index", "blocks_of_axis", "places_of_axis", "until_in_rows"),
    *("last_in_rows", "index_of_axis", "only_slice_differs", "slice_differs_most", "explains_share"),
}


def answers(seed: int) -> Iterator[tuple[str, Mistake, str, Answer | None]]:
    """Yield decoder, mistake, level, and what is said."""
    for mistake in MISTAKES:
        for kind in mistake.kinds.split():
            left, right = Decoder(kind, mistake.name, seed), Decoder(kind, "", seed)
            for level in ("operations", "modules"):
                first = next(first_that_differ(left, right, level), None)
                if first is None:
                    yield kind, mistake, level, None
                    continue
                found = said_of(*first)
                codes = set() if found is None else set(codes_of(found.evidence))
                accused = codes - NEUTRAL - set(mistake.codes.split())
                is_right = bool(codes & set(mistake.codes.split()))
                yield kind, mistake, level, Answer(first[0], found, is_right, bool(accused))


def false_alarms(seed: int) -> Iterator[tuple[str, Diagnosis]]:
    """Yield what is said of sound runs: rounded to 16 bits, and with sums in another order."""
    for kind in ("llama", "gpt2", "moe"):
        right = Decoder(kind, "", seed)
        for how in ({"rounding": "bfloat16"}, {"rounding": "float16"}, {"order": -1}):
            left = Decoder(kind, "", seed, **how)
            for name, ours in left.seen.items():
                found = said_of(name, ours, right.seen[name])
                if found is not None and found.id in ("one_part", "other_order", "other_turn"):
                    yield f"{kind} {how} {name}", found


def main() -> int:
    """Print what is said of each mistake; exit code 1 where anything wrong is said."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    wrong = right = named = asked = 0
    for seed in range(parser.parse_args().seeds):
        for kind, mistake, level, answer in answers(seed):
            if answer is None:
                print(f"{mistake.name} ({kind}, {level}): nothing differs")
                continue
            asked += 1
            right += answer.is_right
            named += answer.diagnosis is not None
            wrong += answer.is_wrong
            mark = "WRONG " if answer.is_wrong else "" if answer.is_right else "- "
            told = "nothing" if answer.diagnosis is None else say(answer.diagnosis.evidence)
            print(f"{mark}{mistake.name} ({kind}, {level}): {answer.tensor}: {told}")
        for where, found in false_alarms(seed):
            wrong += 1
            print(f"FALSE ALARM {where}: {say(found.evidence)}")
    print(f"{asked} trials: {right} point to the mistake, {named - right} say where it is, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
