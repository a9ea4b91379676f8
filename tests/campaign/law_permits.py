"""Permissions that a person may name: honest ones may pass, and say by what factor; dishonest ones may not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from campaign import law_sides
from campaign.law_forms import WHOLE, Apply, Form, arguments, settings, tables, together
from campaign.law_sides import Comparison, Tensors, as_type, record, run, weights_of, write_folder
from campaign.stored import Values
from campaign.trials import NotHereError, Outcome, by_command, quietly

# What golden or third runs have to be compared with.
_IDS = law_sides.BATCH * law_sides.LENGTH
JUDGED = ("npy", "recorded", "npz", "mindspore", "masked", "sketch", "shards")
LIMITED = ("npy", "recorded", "npz", "sketch", "half sketched", "masked")

# -- limits files ------------------------------------------------------------------------------------------------------


def calibrated(
    perturbed: Callable[[Comparison], Tensors],
    *,
    control: Callable[[Comparison], Tensors] | None = None,
    edit: Callable[[Comparison, dict[str, Any]], object] | None = None,
    text: Callable[[str], str] | None = None,
    options: tuple[str, ...] = (),
) -> Apply:
    """Make a limits file of the right side and a perturbed run, edit it, and give it."""

    def apply(case: Comparison) -> None:
        perturbed(case)
        if control is not None:
            control(case)
        case.ask = ask

    def ask(case: Comparison) -> Outcome:
        file = case.root / "limits.json"
        write_folder(case.folder("perturbed"), perturbed(case))
        command = ["calibrate", str(_plain_right(case)), str(case.folder("perturbed")), "-o", str(file)]
        if control is not None:
            write_folder(case.folder("control"), control(case))
            command += ["--control", str(case.folder("control"))]
        code, said = quietly(command)
        if not file.is_file():
            return Outcome(code or 1, "", "no limits file was written", said)
        if edit is not None:
            values = json.loads(file.read_text("utf-8"))
            edit(case, values)
            file.write_text(json.dumps(values), "utf-8")
        if text is not None:
            file.write_text(text(file.read_text("utf-8")), "utf-8")
        return by_command(case, "--limits", str(file), *options)

    return apply


def _plain_right(case: Comparison) -> Any:
    """The right side as whole tensors: what limits are made of."""
    folder = case.folder("plain")
    write_folder(folder, case.reference)
    return folder


def rounding(case: Comparison) -> Tensors:
    """A run whose tensors are off by what rounding does."""
    unit = {"float64": 1e-16, "float32": 6e-8, "float16": 5e-4, "bfloat16": 4e-3}[case.dtype]
    return noisy(unit)(case)


def noisy(size: float) -> Callable[[Comparison], Tensors]:
    def make(case: Comparison) -> Tensors:
        made: Tensors = {}
        for name, values in case.reference.items():
            assert values.array is not None
            if values.dtype == "int32":
                made[name] = values
                continue
            factor = 1 + size * case.rng.choice([-1, 1], values.array.shape)
            made[name] = values._replace(array=as_type(values.array.astype(np.float64) * factor, values.dtype))
        return made

    return make


def of_another_model(case: Comparison) -> Tensors:
    found = run(weights_of(case.rng), case.dtype)
    return {name: found[name] for name in case.reference if name in found}


def failing_run(case: Comparison) -> Tensors:
    """The run under test; one id of 64 that rounding may have flipped is none."""
    if 12 * _flipped(case) < _IDS:
        raise NotHereError
    return case.tested


def _flipped(case: Comparison) -> int:
    return (
        int((case.tested[case.wrong].array != case.reference[case.wrong].array).sum()) if case.wrong == "ids" else _IDS
    )


def one_bad(case: Comparison) -> Tensors:
    """A sound run but for one tensor, which is off as far as the run under test."""
    if _flipped(case) < _IDS:
        raise NotHereError
    return rounding(case) | {case.wrong: case.tested[case.wrong]}


def few_ids(case: Comparison) -> Tensors:
    """A run that flips as many ids as the run under test, where these are few."""
    if 12 * _flipped(case) >= _IDS:
        raise NotHereError
    return rounding(case) | {"ids": case.tested["ids"]}


def other_ids(case: Comparison) -> Tensors:
    """Some ids flipped."""
    ids = case.reference["ids"]
    assert ids.array is not None
    array = ids.array.copy()
    array.flat[:8] += 1
    return rounding(case) | {"ids": ids._replace(array=array)}


def _tensor(case: Comparison, values: dict[str, Any]) -> dict[str, Any]:
    for address, found in values["tensors"].items():
        if address.startswith(f"{case.wrong}:"):
            return found  # type: ignore[no-any-return]
    raise NotHereError


def bases(value: Any) -> Callable[[Comparison, dict[str, Any]], None]:
    """Put another base into the failing tensor's entry; a number is that many limits of the profile."""

    def edit(case: Comparison, values: dict[str, Any]) -> None:
        found = _tensor(case, values)
        if "rel_euclid" not in found:
            raise NotHereError
        limits = law_sides.LIMITS["default"][case.dtype]
        wide = isinstance(value, float) and np.isfinite(value)
        found["rel_euclid"]["base"] = value * limits.relative_euclidean_distance / 12 if wide else value
        found["norm_max"]["base"] = value * limits.normalized_max_error / 12 if wide else value

    return edit


def _multipliers(value: Any) -> Callable[[Comparison, dict[str, Any]], None]:
    return lambda _, values: values.update(m=dict.fromkeys(values["m"], value))


def _unstable(flipped: int, of: int) -> Callable[[Comparison, dict[str, Any]], None]:
    def edit(case: Comparison, values: dict[str, Any]) -> None:
        if case.wrong != "ids":
            raise NotHereError
        values["tensors"]["ids:output:0"] = {
            "class": "forward_small",
            "elements": of,
            "unstable": {"flipped": flipped, "of": of},
        }

    return edit


def _chaotic(_: Comparison, values: dict[str, Any]) -> None:
    for found in values["tensors"].values():
        found["chaotic"] = True


def _without(case: Comparison, values: dict[str, Any]) -> None:
    values["tensors"] = {key: found for key, found in values["tensors"].items() if not key.startswith(f"{case.wrong}:")}


def _of_other_sizes(case: Comparison, values: dict[str, Any]) -> None:
    bases(8.0)(case, values)
    _tensor(case, values)["elements"] = 17


def _twice(text: str) -> str:
    """The multipliers once more, huge."""
    return text.replace('"m": {', '"m": {"forward_large": 1e9, "forward_small": 1e9, ', 1).replace(
        '"m_from"',
        '"m": {"forward_large": 1e9, "forward_small": 1e9, "gradient_large": 1e9, "gradient_small": 1e9}, "m_from"',
        1,
    )


# -- golden and third runs ---------------------------------------------------------------------------------------------

# From so far on a further run cannot be the right side's rounding; the contract says 10.
_FAR_OFF = 12.0

Other = Callable[[Comparison], Mapping[str, Values]]


def further(
    kind: str,
    make: Other,
    *,
    edit: Apply | None = None,
    weights: bool = False,
    far: bool = False,
    of: Other | None = None,
) -> Apply:
    """Give a further run; with `weights` it says that it has other weights than the right side.

    With `far` only one that no rounding explains: it misses the limits of the right side's own type by more than 10 x,
    measured from the right side, or from the run `of`.
    """

    def apply(case: Comparison) -> None:
        if far and _distance(case, make(case), of) < _FAR_OFF:
            raise NotHereError

        def write() -> None:
            # As the names of MindSpore's tree are mangled.
            scope = "Default_" if case.store.name == "mindspore" else ""
            made = {f"{scope}{name}": values for name, values in make(case).items()}
            if case.store.name in ("recorded", "sketch") or weights:
                record(case.folder(kind), made, weights_of(case.rng) if weights else case.weights)
            else:
                write_folder(case.folder(kind), made)

        case.after.append(write)
        case.settings[kind] = kind
        if edit is not None:
            edit(case)

    return apply


def _distance(case: Comparison, made: Mapping[str, Values], of: Other | None) -> float:
    """By what factor a further run's failing tensor misses the limits of the right side's type."""
    if case.wrong not in made or case.wrong == "ids":
        return 0.0
    one, other = made[case.wrong].array, (case.reference if of is None else of(case))[case.wrong].array
    assert one is not None
    assert other is not None
    if one.shape != other.shape:
        return np.inf
    seen = np.abs(np.nan_to_num(case.reference[case.wrong].array.astype("f8"))) < 1e3  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        apart = np.linalg.norm((one.astype("f8") - other)[seen]) / np.linalg.norm(one.astype("f8")[seen])
    limit = law_sides.LIMITS["default"][case.dtype].relative_euclidean_distance
    return float(apart / limit) if np.isfinite(apart) else np.inf


def exact_run(case: Comparison) -> Tensors:
    """The right side's weights, rounded to its type, in float64."""
    rounded = {name: as_type(array, case.dtype).astype(np.float64) for name, array in case.weights.items()}
    found = run(rounded, "float64")
    if case.store.name == "masked":
        # Masked elements are what the mask made of them.
        old, new = case.reference["scores"].array, found["scores"].array
        assert old is not None
        assert new is not None
        found["scores"] = Values(np.where(np.abs(old) < 1e3, new, old.astype(np.float64)), "float64", b"")
    return {name: values for name, values in found.items() if name != "ids"}


def _as_exact(tensors: Mapping[str, Values]) -> Tensors:
    return {
        name: Values(values.array.astype(np.float64), "float64", b"")
        for name, values in tensors.items()
        if values.array is not None and values.dtype != "int32"
    }


def tested(case: Comparison) -> Tensors:
    return _as_exact(case.tested)


def between(case: Comparison) -> Tensors:
    """Midway between both sides, so that either is as far from it."""
    pairs = {name: (case.tested[name].array, case.reference[name].array) for name in _as_exact(case.reference)}
    with np.errstate(invalid="ignore"):
        middle = {name: (a.astype("f8") + b) / 2 for name, (a, b) in pairs.items() if a is not None and b is not None}
    return {name: Values(array, "float64", b"") for name, array in middle.items()}


def other_weights(case: Comparison) -> Tensors:
    return _as_exact(run(weights_of(case.rng), "float64"))


def other_inputs(case: Comparison) -> Tensors:
    return _as_exact(run(case.weights | {"x": weights_of(case.rng)["x"]}, "float64"))


def changed(change: Callable[[Any], Any]) -> Other:
    """The exact run, its failing tensor changed."""

    def make(case: Comparison) -> Tensors:
        found = exact_run(case)
        if case.wrong not in found:
            raise NotHereError
        array = change(found[case.wrong].array)
        return found | {case.wrong: Values(array, str(array.dtype), b"")}

    return make


def nan_where_wrong(case: Comparison) -> Tensors:
    """NaN wherever the left is not equal to the right."""
    found, one, other = exact_run(case), case.tested[case.wrong].array, case.reference[case.wrong].array
    if case.wrong not in found or one is None or other is None or (one != other).all():
        raise NotHereError
    array = np.where(one == other, found[case.wrong].array, np.nan)
    return found | {case.wrong: Values(array, "float64", b"")}


def without_wrong(case: Comparison) -> Tensors:
    return {name: values for name, values in exact_run(case).items() if name != case.wrong}


def of_the_right(case: Comparison) -> Tensors:
    return {name: values for name, values in case.reference.items() if values.dtype != "int32"}


def _coarser(case: Comparison) -> Tensors:
    return {name: Values(as_type(v.array, "float16"), "float16", b"") for name, v in exact_run(case).items()}  # type: ignore[arg-type]


# -- accepted drifts, rules and thresholds -----------------------------------------------------------------------------

_FAR = "2099-12-31"
_WIDE = "relative_euclidean_distance = 0.9e9", "normalized_max_error = 0.9e9", "cosine_similarity = -0.99"


def _bounds(case: Comparison, factor: float) -> list[str]:
    """Limits that the failing tensor just meets, times a factor; a person may name such."""
    left, right = case.tested[case.wrong], case.reference[case.wrong]
    assert left.array is not None
    assert right.array is not None
    if not np.isfinite(left.array).all():
        raise NotHereError
    if right.dtype == "int32":
        most = int(np.abs(left.array.astype(int) - right.array).max())
        return [f"max_absolute_error = {max(1, int(most * factor))}"]
    with np.errstate(all="ignore"):
        found = law_sides.metrics(left.array.astype(np.longdouble).ravel(), right.array.astype(np.longdouble).ravel())
    limits = law_sides.LIMITS["default"][case.dtype]
    lines = []
    if found.relative_euclidean_distance * factor > limits.relative_euclidean_distance:
        lines.append(f"relative_euclidean_distance = {found.relative_euclidean_distance * factor:.17g}")
    if found.normalized_max_error * factor > limits.normalized_max_error:
        lines.append(f"normalized_max_error = {found.normalized_max_error * factor:.17g}")
    if not found.cosine_similarity > limits.cosine_similarity:
        cosine = found.cosine_similarity if np.isfinite(found.cosine_similarity) else 0.0
        if not np.isfinite(found.cosine_similarity):
            raise NotHereError
        lines.append(f"cosine_similarity = {max(-0.99, 1 - (1 - cosine) * factor):.17g}")
    return lines


def drift(
    factor: float = 1.1, *, match: str = "WRONG", reason: str = '"ticket"', until: str = _FAR, some: bool = False
) -> Apply:
    def apply(case: Comparison) -> None:
        lines = _bounds(case, factor)
        if some and len(lines) < 2:
            raise NotHereError
        glob = next(name for name in law_sides.NAMES if name != case.wrong) if match == "OTHER" else match
        glob = glob.replace("WRONG", f"*{case.wrong}*")
        case.tables += ["[[msdump.known_drift]]", f'match = "{glob}"', f"reason = {reason}", f"until = {until}"]
        case.tables += lines[: 1 if some else None]

    return apply


def written_drift(*lines: str) -> Apply:
    return tables("[[msdump.known_drift]]", 'match = "*WRONG*"', 'reason = "ticket"', f"until = {_FAR}", *lines)


def rule(factor: float = 1.1, *head: str) -> Apply:
    def apply(case: Comparison) -> None:
        lines = [line.replace("WRONG", case.wrong) for line in head or ('match = "*WRONG*"',)]
        case.tables += ["[[msdump.rule]]", *lines, *_bounds(case, factor)]

    return apply


def accepted_elsewhere(case: Comparison) -> None:
    """Accepted while another tensor failed alike; now this one fails."""
    right, other = dict(case.reference), "dense" if case.wrong != "dense" else "act"
    array = right[other].array
    if case.wrong == "ids" or array is None:
        raise NotHereError

    def ask(case: Comparison) -> Outcome:
        ours = case.folder("left")
        case.folder("left").rename(case.root / "later")
        write_folder(ours, right | {other: right[other]._replace(array=as_type(array * 3.0, case.dtype))})
        by_command(case)
        options = ["*", "--reason", "ticket", "--until", _FAR, "--config", str(case.root / "msdump.toml")]
        code, text = quietly(["accept", str(case.root / "by-command"), *options])
        if code:
            return Outcome(code, "", "", text)
        accepted = (case.root / "msdump.toml").read_text("utf-8")
        ours.rename(case.root / "earlier")
        (case.root / "later").rename(ours)
        case.tables = accepted.partition("[msdump]\n")[2].splitlines()[3 + len(case.settings) :]
        return by_command(case)

    case.ask = ask


def thresholds(factor: float = 1.1) -> Apply:
    def apply(case: Comparison) -> None:
        for line in _bounds(case, factor):
            case.arguments += ["--threshold", line.replace(" ", "")]

    return apply


_DRIFT, _RULE, _LIMIT, _GOLDEN, _THIRD = ("known drift",), ("rule",), ("limits",), ("golden",), ("third",)
_EACH = (*WHOLE, "masked", "sketch", "mindspore", "shards", "tokens")

PERMITS: tuple[Form, ...] = (
    Form("limits file", "honest", calibrated(rounding), LIMITED, permits=_LIMIT),
    Form("limits file", "of another model", calibrated(of_another_model), LIMITED, _FAR_OFF),
    Form("limits file", "perturbed run is the failing one", calibrated(failing_run), LIMITED, _FAR_OFF),
    Form("limits file", "perturbed run far off", calibrated(noisy(0.5)), LIMITED, _FAR_OFF),
    Form("limits file", "one bad control run", calibrated(rounding, control=one_bad), LIMITED, _FAR_OFF),
    Form("limits file", "one id flipped, as by rounding", calibrated(few_ids), ("npy", "npz"), permits=_LIMIT),
    Form("limits file", "some ids flipped", calibrated(other_ids), ("npy", "npz")),
    Form("limits file", "m = 1e30", calibrated(rounding, edit=_multipliers(1e30)), LIMITED),
    Form("limits file", "m = 1e4", calibrated(rounding, edit=_multipliers(1e4)), LIMITED, permits=_LIMIT),
    Form("limits file", "m NaN", calibrated(rounding, edit=_multipliers(float("nan"))), LIMITED),
    Form("limits file", "m Inf", calibrated(rounding, edit=_multipliers(float("inf"))), LIMITED),
    Form("limits file", "m a text", calibrated(rounding, edit=_multipliers("12")), LIMITED),
    Form("limits file", "base NaN", calibrated(rounding, edit=bases(float("nan"))), LIMITED),
    Form("limits file", "base Inf", calibrated(rounding, edit=bases(float("inf"))), LIMITED),
    Form("limits file", "base negative", calibrated(rounding, edit=bases(-1.0)), LIMITED),
    Form("limits file", "base true", calibrated(rounding, edit=bases(True)), LIMITED),
    Form("limits file", "8 x looser", calibrated(rounding, edit=bases(8.0)), LIMITED, permits=_LIMIT),
    Form("limits file", "15 x looser", calibrated(rounding, edit=bases(15.0)), LIMITED),
    Form("limits file", "1e4 x looser", calibrated(rounding, edit=bases(1e4)), LIMITED),
    Form(
        "limits file",
        "1e3 x looser, as allowed",
        calibrated(rounding, edit=bases(1e3), options=("--accept-looser",)),
        LIMITED,
        permits=_LIMIT,
    ),
    Form("limits file", "of other sizes", calibrated(rounding, edit=_of_other_sizes), LIMITED),
    Form("limits file", "12 x the ids may flip", calibrated(rounding, edit=_unstable(6, 64)), ("npy", "npz")),
    Form(
        "limits file", "as many ids flipped as there are", calibrated(rounding, edit=_unstable(64, 64)), ("npy", "npz")
    ),
    Form("limits file", "ids of another size", calibrated(rounding, edit=_unstable(100, 10000)), ("npy", "npz")),
    Form(
        "limits file", "more ids flipped than there are", calibrated(rounding, edit=_unstable(640, 64)), ("npy", "npz")
    ),
    Form("limits file", "all chaotic", calibrated(rounding, edit=_chaotic), LIMITED),
    Form("limits file", "without the tensor", calibrated(rounding, edit=_without), LIMITED),
    Form("limits file", "no schema", calibrated(rounding, edit=lambda _, values: values.pop("schema")), LIMITED),
    Form(
        "limits file",
        "other formulas",
        calibrated(rounding, edit=lambda _, values: values.update(metric_version=99)),
        LIMITED,
    ),
    Form(
        "limits file",
        "of other weights",
        calibrated(rounding, edit=lambda _, values: values["reference"].update(weights="sha256:" + "0" * 64)),
        ("recorded",),
    ),
    Form("limits file", "cut off", calibrated(rounding, text=lambda text: text[: len(text) * 3 // 4]), LIMITED),
    Form("limits file", "m said twice", calibrated(rounding, text=_twice), LIMITED),
    Form("golden", "honest", further("golden", exact_run), JUDGED),
    Form("golden", "of other weights", further("golden", other_weights, far=True), JUDGED),
    Form("golden", "of other weights, as it says", further("golden", exact_run, weights=True), ("recorded",)),
    Form("golden", "of other inputs", further("golden", other_inputs, far=True), JUDGED),
    Form("golden", "is the left", further("golden", tested, far=True), JUDGED),
    Form("golden", "midway", further("golden", between, far=True), JUDGED),
    Form("golden", "all 0", further("golden", changed(np.zeros_like), far=True), JUDGED),
    Form("golden", "all NaN", further("golden", changed(lambda a: np.full_like(a, np.nan))), JUDGED),
    Form("golden", "NaN where the left is wrong", further("golden", nan_where_wrong), JUDGED),
    Form("golden", "Inf", further("golden", changed(lambda a: np.full_like(a, np.inf))), JUDGED),
    Form("golden", "scaled", further("golden", changed(lambda a: a * 1e6), far=True), JUDGED),
    Form("golden", "of another shape", further("golden", changed(lambda a: a[:-1])), JUDGED),
    Form(
        "golden",
        "integers",
        further("golden", changed(lambda a: np.nan_to_num(a).clip(-1e9, 1e9).astype(np.int64)), far=True),
        JUDGED,
    ),
    Form("golden", "coarser", further("golden", _coarser), ("npy", "recorded")),
    Form("golden", "without the tensor", further("golden", without_wrong), JUDGED),
    Form("golden", "is the right", further("golden", of_the_right), JUDGED),
    Form(
        "golden",
        "cut off",
        further("golden", exact_run, edit=lambda case: case.after.append(lambda: _cut_run(case, "golden"))),
        ("npy", "npz"),
    ),
    Form("golden", "empty", further("golden", lambda _: {}), ("npy",)),
    Form("third", "honest", further("third", noisy(1e-9)), JUDGED),
    Form("third", "is the left", further("third", failing_run, far=True), JUDGED),
    Form("third", "of other weights", further("third", other_weights, far=True), JUDGED),
    Form("third", "far off", further("third", noisy(0.9), far=True), ("npy", "recorded")),
    Form("third", "all NaN", further("third", changed(lambda a: np.full_like(a, np.nan))), JUDGED),
    Form("third", "NaN where the left is wrong", further("third", nan_where_wrong), JUDGED),
    Form("third", "all 0", further("third", changed(np.zeros_like), far=True), JUDGED),
    Form("third", "of another shape", further("third", changed(lambda a: a[:-1])), JUDGED),
    Form("third", "without the tensor", further("third", without_wrong), JUDGED),
    Form("third", "is the right", further("third", of_the_right), JUDGED),
    Form(
        "third",
        "is the left, with golden",
        together(further("third", failing_run, far=True), further("golden", exact_run)),
        ("npy", "recorded"),
        _FAR_OFF,
    ),
    Form("known drift", "honest", drift(), WHOLE, permits=_DRIFT),
    Form("known drift", "expired", drift(until="2020-01-01"), _EACH),
    Form("known drift", "of another tensor", drift(match="OTHER"), _EACH),
    Form("known drift", "of nothing", drift(match="nothing_*"), _EACH),
    Form("known drift", "too small", drift(0.8), WHOLE),
    Form("known drift", "some of its metrics", drift(some=True), WHOLE),
    Form("known drift", "no reason", drift(reason='""'), _EACH),
    Form("known drift", "until never", drift(until='"never"'), _EACH),
    Form("known drift", "limit NaN", written_drift("relative_euclidean_distance = nan"), _EACH),
    Form(
        "known drift",
        "limit Inf",
        written_drift("relative_euclidean_distance = inf", "normalized_max_error = inf", "cosine_similarity = -1"),
        _EACH,
    ),
    Form("known drift", "limits that all meet", written_drift(*_WIDE[:2], "cosine_similarity = -1"), _EACH),
    Form("known drift", "limit negative", written_drift("relative_euclidean_distance = -1"), _EACH),
    Form("known drift", "no limit", written_drift(), _EACH),
    Form(
        "known drift",
        "limit said twice",
        written_drift("relative_euclidean_distance = 0.1", "relative_euclidean_distance = 0.9"),
        _EACH,
    ),
    Form("known drift", "accepted while another failed", accepted_elsewhere, ("npy",)),
    Form("rule", "honest", rule(), WHOLE, permits=_RULE),
    Form("rule", "of nothing", rule(1.1, 'match = "nothing"'), _EACH),
    Form("rule", "of another type", rule(1.1, 'op_type = "Softmax"'), _EACH),
    Form("rule", "of another data type", rule(1.1, 'dtype = "float8_e5m2"'), _EACH),
    Form("rule", "too small", rule(0.8), WHOLE),
    Form("rule", "limit NaN", tables("[[msdump.rule]]", "rel_euclid = nan"), _EACH),
    Form(
        "rule",
        "cosine that all meet",
        tables("[[msdump.rule]]", "rel_euclid = 1e30", "norm_max = 1e30", "cosine = -1"),
        _EACH,
    ),
    Form("rule", "limits Inf", tables("[[msdump.rule]]", "rel_euclid = inf", "norm_max = inf", "cosine = -inf"), _EACH),
    Form("rule", "limit a text", tables("[[msdump.rule]]", 'rel_euclid = "0.9"'), _EACH),
    Form("rule", "limit said twice", tables("[[msdump.rule]]", "rel_euclid = 0.1", "rel_euclid = 0.9"), _EACH),
    Form(
        "rule", "fail and warn exchanged", tables("[[msdump.rule]]", "rel_euclid = { fail = 1e-9, warn = 0.9 }"), _EACH
    ),
    Form("rule", "of no metric", tables("[[msdump.rule]]", 'match = "*"'), _EACH),
    Form("threshold", "honest", thresholds(), WHOLE, permits=("command line", "--threshold", "threshold")),
    Form("threshold", "too small", thresholds(0.8), WHOLE),
    Form("threshold", "cosine=-1", arguments("--threshold", "cosine=-1"), _EACH),
    Form("threshold", "NaN", arguments("--threshold", "rel_euclid=nan"), _EACH),
    Form(
        "threshold",
        "Inf",
        arguments("--threshold", "rel_euclid=inf", "--threshold", "norm_max=inf", "--threshold", "cosine=-inf"),
        _EACH,
    ),
    Form("threshold", "no number", arguments("--threshold", "rel_euclid="), _EACH),
    Form("threshold", "no such metric", arguments("--threshold", "rel_euclidean=9"), _EACH),
    Form(
        "threshold",
        "without what is limited",
        arguments("--without", "rel_euclid", "--without", "norm_max", "--without", "cosine"),
        _EACH,
    ),
    Form("threshold", "no such profile", settings(profile="loose"), _EACH),
    Form("threshold", "dual benchmark without golden", settings(profile="ascend_dual_l0"), _EACH),
    Form("threshold", "less coverage than none", settings(min_coverage=-1), _EACH),
)


def _cut_run(case: Comparison, kind: str) -> None:
    path = next(iter(sorted(case.folder(kind).glob(f"*{case.wrong}*.npy"))), None)
    if path is None:
        raise NotHereError
    path.write_bytes(path.read_bytes()[:-100])
