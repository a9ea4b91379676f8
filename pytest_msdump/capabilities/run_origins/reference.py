"""What a reference was, by its manifests: digests of weights, inputs and graph, and what it ran in."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_msdump.core.model.dump import Dump, Manifest

# Digests of a manifest, in the order in which messages name them.
MANIFEST_DIGESTS = ("weights", "inputs", "graph")
_ROUNDED = re.compile(r"\+[^/]*")


@dataclass(frozen=True, slots=True)
class ReferenceFacts:
    """What a reference was: digests of its manifest, each empty where that does not say, and what it ran in."""

    weights: str = ""
    inputs: str = ""
    graph: str = ""
    dtype: str = ""
    framework: str = ""

    @classmethod
    def of(cls, dump: Dump, dtype: str = "") -> ReferenceFacts:
        """Return the facts of a dump; of several ranks those of all."""
        manifests: Mapping[Any, Manifest] = dump.ranks or ({None: dump.manifest} if dump.manifest else {})
        calls = [
            [at.rank, at.iteration, call.name, call.op_type, [one and [one.producer, one.slot] for one in call.inputs]]
            for at, graph in dump.graphs
            if graph.is_recorded
            for call in graph.operators
        ]
        labels = dict(dump.labels)
        return cls(
            weights=_digest({rank: _exact(manifest.weights) for rank, manifest in manifests.items()}),
            inputs=_digest({rank: _exact(manifest.inputs) for rank, manifest in manifests.items()}),
            graph=_digest({None: calls}),
            dtype=dtype,
            framework=labels.get("framework", ""),
        )

    def differing(self, other: ReferenceFacts) -> tuple[str, ...]:
        """Return the names of the digests that both have and that are not the same."""
        return tuple(name for name in self.common(other) if getattr(self, name) != getattr(other, name))

    def common(self, other: ReferenceFacts) -> tuple[str, ...]:
        """Return the names of the digests that both have."""
        return tuple(name for name in MANIFEST_DIGESTS if getattr(self, name) and getattr(other, name))


def _exact(digests: Mapping[str, str]) -> dict[str, str]:
    """Return digests without those of rounded values, which earlier recordings lack."""
    return {name: _ROUNDED.sub("", digest) for name, digest in digests.items()}


def _digest(by_rank: Mapping[int | None, Any]) -> str:
    """Return the digest of what manifests say, empty where they say nothing."""
    if not any(by_rank.values()):
        return ""
    text = json.dumps({str(rank): values for rank, values in by_rank.items()}, sort_keys=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
