"""Pairing by structure: module paths, edges, blocks in order, words, kinds and shapes; and modules as addresses."""

SENTENCES = "pytest_msdump.capabilities.structure.text:SENTENCES"
WAYS = {"structure": "pytest_msdump.capabilities.structure.by_structure:pair_by_structure"}
STAGES = {
    "modules": "pytest_msdump.capabilities.structure.addresses:ModulesByScope",
    "own_outputs": "pytest_msdump.capabilities.structure.outputs:pair_outputs",
}
