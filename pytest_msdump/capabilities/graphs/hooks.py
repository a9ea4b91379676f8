"""Graphs that a run leaves beside its tensors: they give a dump its order, its operators' arguments and lines."""

NEEDS = ("protobuf",)

AFTER = ("statistics",)

STAGES = {"indexed": "pytest_msdump.capabilities.graphs.execution_order:with_graphs"}

# What reads the graph of a compiled model, what gives a dump its order, and what knows the arguments of operators.
GRAPHS = {
    "model": "pytest_msdump.capabilities.graphs.ge_model:read_model",
    "order": "pytest_msdump.capabilities.graphs.execution_order:with_order_of",
    "arguments": "pytest_msdump.capabilities.graphs.operators:ArgumentBook",
    "differences": "pytest_msdump.capabilities.graphs.operators:arguments_of_pair",
}

# Prefix of what is selected → what replaces it by names of operators.
SELECTORS = {"line:": "pytest_msdump.capabilities.graphs.operators:with_line_names"}
