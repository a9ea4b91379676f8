"""Pairing by structure: module paths, then kinds, shapes, order and edges."""

WAYS = {
    "scope": "pytest_msdump.capabilities.structure.modules:pair_by_scope",
    "graph": "pytest_msdump.capabilities.structure.by_graph:pair_by_graph",
}
