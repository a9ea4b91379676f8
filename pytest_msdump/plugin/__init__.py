"""The pytest plugin: pytest's words on one side, the library's on the other, thin hooks between.

Importing this module costs nothing but pytest and the standard library; a run without dumps never imports numpy.
"""

from __future__ import annotations

from pytest_msdump.plugin.fixtures import (
    msdump,
    msdump_left,
    msdump_pairs,
    msdump_recorder,
    msdump_reference,
    msdump_right,
)
from pytest_msdump.plugin.hooks import (
    pytest_addoption,
    pytest_collect_file,
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_configure_node,
    pytest_generate_tests,
    pytest_load_initial_conftests,
    pytest_make_collect_report,
    pytest_report_collectionfinish,
    pytest_report_header,
    pytest_runtest_makereport,
    pytest_runtestloop,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_xdist_node_collection_finished,
)

__all__ = [
    "msdump",
    "msdump_left",
    "msdump_pairs",
    "msdump_recorder",
    "msdump_reference",
    "msdump_right",
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_generate_tests",
    "pytest_load_initial_conftests",
    "pytest_make_collect_report",
    "pytest_report_collectionfinish",
    "pytest_report_header",
    "pytest_runtest_makereport",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_xdist_node_collection_finished",
]
