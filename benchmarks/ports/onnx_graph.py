"""An ONNX graph that can be asked and changed: mistakes are put into one node, and names of the others stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper
from truth import Truth, operator_of

__all__ = ["Graph"]


class Graph:
    """A model's graph, its nodes by name."""

    def __init__(self, proto: Any) -> None:
        self.proto = proto
        self.nodes: dict[str, NodeProto] = {node.name: node for node in proto.graph.node}
        self.makers = {output: node for node in proto.graph.node for output in node.output}

    def of_address(self, address: str) -> NodeProto:
        """Return the node that an address of a recorded tensor names."""
        return self.nodes[operator_of(address)]

    def readers(self, node: NodeProto) -> list[NodeProto]:
        """Return the nodes that read what a node gives out."""
        return [other for other in self.proto.graph.node if set(other.input) & set(node.output)]

    def first_pairs(self, name: str, truth: Truth, *, without: bool = False) -> list[list[str]]:
        """Return the true pair of a node; of the nearest nodes behind it where it has none, or is left out."""
        pairs = {operator_of(left): [left, right] for left, right in reversed(truth.pairs)}
        alias = {
            operator_of(one): [one, entry["right"][0]] for entry in truth.values for one in reversed(entry["left"])
        }
        found, open_nodes, seen = [], [name], set()
        while open_nodes:
            node = open_nodes.pop()
            if node in seen:
                continue
            seen.add(node)
            pair = pairs.get(node) or alias.get(node)
            if pair and not (without and node == name):
                found.append(pair)
            else:
                open_nodes += [reader.name for reader in self.readers(self.nodes[node])]
        return found

    def weight(self, name: str) -> Any:
        """Return a weight or a constant as an array; ``None`` for a computed tensor."""
        for initializer in self.proto.graph.initializer:
            if initializer.name == name:
                return numpy_helper.to_array(initializer)
        maker = self.makers.get(name)
        if maker is not None and maker.op_type == "Constant":
            return numpy_helper.to_array(maker.attribute[0].t)
        return None

    def give(self, node: NodeProto, place: int, value: Any) -> None:
        """Give a node a weight of its own as one input, so that others that share it keep theirs."""
        name = f"{node.name}_mistaken_{place}"
        self.proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        while len(node.input) <= place:
            node.input.append("")
        node.input[place] = name

    def set(self, node: NodeProto, **attributes: Any) -> None:
        """Set attributes of a node; ``None`` removes one."""
        kept = [one for one in node.attribute if one.name not in attributes]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.extend(
            helper.make_attribute(name, value) for name, value in attributes.items() if value is not None
        )

    def bypass(self, node: NodeProto, kept: int) -> None:
        """Remove a node: what read it reads its input number `kept`."""
        for reader in self.readers(node):
            for place, given in enumerate(reader.input):
                if given in node.output:
                    reader.input[place] = node.input[kept]
        self.proto.graph.node.remove(node)
