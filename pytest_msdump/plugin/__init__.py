"""The pytest plugin. Importing it loads pytest and the standard library; a run without dumps never imports numpy."""

from __future__ import annotations

from pytest_msdump.plugin.fixtures import (
    msdump,
    msdump_control,
    msdump_generation,
    msdump_left,
    msdump_pairs,
    msdump_perturb,
    msdump_recorder,
    msdump_reference,
    msdump_repeats,
    msdump_replay,
    msdump_right,
)
from pytest_msdump.plugin.hooks import (
    pytest_addhooks,
    pytest_addoption,
    pytest_collect_file,
    pytest_collection,
    pytest_configure,
    pytest_configure_node,
    pytest_generate_tests,
    pytest_load_initial_conftests,
    pytest_sessionfinish,
    pytest_terminal_summary,
)

__all__ = [
    "msdump",
    "msdump_control",
    "msdump_generation",
    "msdump_left",
    "msdump_pairs",
    "msdump_perturb",
    "msdump_recorder",
    "msdump_reference",
    "msdump_repeats",
    "msdump_replay",
    "msdump_right",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_collection",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_generate_tests",
    "pytest_load_initial_conftests",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
]
