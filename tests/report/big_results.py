"""A results.json of any size, with the long names of a deep network and every number that a record can hold."""

from __future__ import annotations

import json
from random import Random

from report import samples

from pytest_msdump.core.compare.assemble import assemble
from pytest_msdump.core.report.json_report import document
from pytest_msdump.core.report.record_json import from_json

# What nobody would call an operator, and a dump may all the same.
NAMES = ("<script>alert(1)</script>", "Default/\"quoted' name/<img src=x onerror=alert(1)>", "Default/卷积/😀")

METRICS = (
    "cosine_similarity", "max_absolute_error", "accumulated_relative_error", "relative_euclidean_distance",
    "kl_divergence", "mean_absolute_error", "root_mean_square_error", "max_relative_error", "mean_relative_error",
    "normalized_max_error",
)  # fmt: skip


def results(tensors, *, failing=0.3, seed=7, names=None, roles=False):
    """A report of `tensors` records as results.json has it; `names` replace the first operators' names."""
    random = Random(seed)
    plain = json.dumps(samples.entry(samples.drifted()))
    records = [_record(plain, number, random, failing) for number in range(tensors)]
    for number, name in enumerate(names or ()):
        records[number]["left"].update(address=f"{name}:output:0", true_name=name, name=name.replace("/", "_"))
    left, right = samples.dumps()
    limits = {"nan": "match", "rules": ['rule match="never*"']}
    pairing = samples.pairing([samples.pair()])
    report = assemble(left, right, pairing, map(from_json, records), profile="default", limits=limits)
    values = document(report)
    values["left"]["operators"] = tensors
    values["coverage"].update(right_total=tensors, right_paired=tensors)
    if roles:
        _give_roles(values)
    return values


def _record(plain, number, random, failing):
    """One record: numbers of its own under the names of a residual network."""
    record = json.loads(plain)
    block, conv = divmod(number, 6)
    stage = f"layer{block % 4 + 1}-SequentialCell/{block}-ResidualBlock"
    name = f"Default/network-WithLossCell/_backbone-ResNet/{stage}/conv{conv}-Conv2d/Conv2D-op{number}"
    stamp = 1795222395086104 + number * 1371 + random.randrange(900)
    record["order"] = number
    record["left"].update(
        address=f"{name}:output:0",
        true_name=name,
        name=name.replace("/", "_"),
        op_type=("Conv2D", "BatchNorm", "ReLU", "Add", "MatMul")[number % 5],
        file=f"rank_0/ResNet/0/0/Conv2D.{name.replace('/', '_')}.{number}.{number % 7}.{stamp}.output.0.Float32.npy",
    )
    record["right"].update(
        address=f"layer{block % 4 + 1}.{block}.conv{conv}:output:0",
        name=f"layer{block % 4 + 1}.{block}.conv{conv}",
        file=f"layer{block % 4 + 1}.{block}.conv{conv}.0.{stamp - 52113567}.npy",
    )
    fails = random.random() < failing
    error = 10 ** random.uniform(-2.5, 0.5) if fails else 10 ** random.uniform(-9, -4)
    numbers = {metric: error * random.uniform(0.2, 3) for metric in METRICS}
    numbers["cosine_similarity"] = 1 - min(1.0, error**2)
    record["metrics"].update(numbers)
    bounds = {"cosine_similarity": 0.999, "relative_euclidean_distance": 0.001, "normalized_max_error": 0.01}
    failed = set()
    for check in record["checks"]:
        check["value"] = record["metrics"][check["metric"]]
        if check["metric"] in bounds:
            low = check["metric"] == "cosine_similarity"
            value, bound = check["value"], bounds[check["metric"]]
            check["outcome"] = "fail" if (value < bound if low else value > bound) else "ok"
            failed |= {check["metric"]} if check["outcome"] == "fail" else set()
    record["findings"] = [one for one in record["findings"] if one["metric"] in failed]
    record["verdict"] = "fail" if failed else "pass"
    record["would_pass"] = {metric: bound for metric, bound in record["would_pass"].items() if metric in failed}
    record["worst"] = [
        {
            "index": [random.randrange(64) for _ in range(4)],
            "left": random.gauss(0, 3),
            "right": random.gauss(0, 3),
            "ratio": random.uniform(1, 1e6),
        }
        for _ in range(5)
    ]
    return record


def _give_roles(values):
    """Edges of a chain with a branch at every fifth operator; the first failure of each path is its cause."""
    records = values["tensors"]
    edges = [[number, number + 1] for number in range(len(records) - 1)]
    edges += [[number, number + 3] for number in range(0, len(records) - 3, 5)]
    producers = {}
    for producer, consumer in edges:
        producers.setdefault(consumer, []).append(producer)
    bad = {}
    for number, record in enumerate(records):
        above = [producer for producer in producers.get(number, ()) if producer in bad]
        if record["verdict"] != "fail":
            continue
        record.update(role="inherited" if above else "cause", causes=[], suspects=[], role_reason="")
        bad[number] = [records[number]["left"]["address"]] if not above else bad[above[0]]
        if above:
            record["causes"] = bad[number]
        else:
            record["source"] = {"file": "net/resnet.py", "line": 40 + number, "text": "out = self.conv2(out)"}
            record["diagnosis"] = [{"id": "scaled", "confidence": "high", "evidence": "left is 1.02 times the right"}]
    values["edges"] = edges
    values["localised_by"] = "graph"
