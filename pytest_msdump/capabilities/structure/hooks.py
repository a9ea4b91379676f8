"""Pairing by structure: module paths, then kinds, shapes, order and edges."""

SENTENCES = "pytest_msdump.capabilities.structure.text:SENTENCES"
WAYS = {
    "scope": "pytest_msdump.capabilities.structure.modules:pair_by_scope",
    "graph": "pytest_msdump.capabilities.structure.by_graph:pair_by_graph",
    "structure": "pytest_msdump.capabilities.structure.by_structure:pair_by_structure",
}
