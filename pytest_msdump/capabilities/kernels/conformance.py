"""The laws that every definition of an operator keeps, as tests to inherit."""

# These are tests, though they are shipped: they assert.
# ruff: noqa: S101

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pytest_msdump.capabilities.kernels.again import judge
from pytest_msdump.capabilities.kernels.operators.definition import Array, Call, Definition, Result, computed
from pytest_msdump.core.errors import NotReplayableError
from pytest_msdump.core.model.tensor import TensorSpec

# Of the sum of absolute terms.
_CLOSE = 1e-12


class OperatorConformance(ABC):
    """Inherit it, give the two fixtures, and pytest runs the laws against your definition of an operator.

    Examples
    --------
    >>> class TestMyOperator(OperatorConformance):
    ...     @pytest.fixture
    ...     def definition(self):
    ...         return my_operator
    ...
    ...     @pytest.fixture
    ...     def cases(self):
    ...         x = torch.randn(4, 5, dtype=torch.float64)
    ...         return [(Call("MyOperator", [x.numpy()]), [torch.special.erf(x).numpy()])]
    """

    @pytest.fixture
    @abstractmethod
    def definition(self) -> Definition:
        """Return the definition under test."""

    @pytest.fixture
    @abstractmethod
    def cases(self) -> Sequence[tuple[Call, Sequence[Array]]]:
        """Return calls, each with its outputs by a double-precision kernel of a framework. Call any shapes you can."""

    @pytest.fixture
    def results(
        self, definition: Definition, cases: Sequence[tuple[Call, Sequence[Array]]]
    ) -> list[tuple[Result, Array]]:
        """Return what the definition gives for each case, beside what it should be."""
        found: list[tuple[Result, Array]] = []
        for call, outputs in cases:
            specs = [TensorSpec(one.dtype.name, one.shape) for one in outputs]
            each = computed(definition, replace(call, outputs=specs))
            found += [(one, output) for one, output in zip(each, outputs, strict=False) if one is not None]
        assert found
        return found

    def test_it_computes_what_a_double_precision_kernel_computes(self, results: list[tuple[Result, Array]]) -> None:
        """But for 1e-12 of the numbers that it adds up."""
        for result, output in results:
            assert result.value.shape == output.shape
            scale = 0 if result.scale is None else result.scale
            assert (np.abs(result.value - output) <= _CLOSE * scale).all()

    def test_a_sound_kernel_of_single_precision_is_not_accused(self, results: list[tuple[Result, Array]]) -> None:
        """One that rounds the true result once."""
        for result, output in results:
            assert judge(result, output.astype(np.float32).astype(np.float64), "float32").is_sound

    def test_a_kernel_that_is_off_by_a_hundredth_is_accused(self, results: list[tuple[Result, Array]]) -> None:
        """A scale that is far too large would hide it."""
        for result, output in results:
            off = output.astype(np.float64) + 0.01 * max(float(np.abs(output).max(initial=0)), 1e-3)
            assert not judge(result, off, "float32").is_sound

    def test_it_leaves_its_inputs_alone(
        self, definition: Definition, cases: Sequence[tuple[Call, Sequence[Array]]]
    ) -> None:
        """They may be outputs that are judged later."""
        for call, outputs in cases:
            before = [None if one is None else one.copy() for one in call.inputs]
            definition(replace(call, outputs=[TensorSpec(one.dtype.name, one.shape) for one in outputs]))
            for one, same in zip(call.inputs, before, strict=True):
                assert one is None or same is None or np.array_equal(one, same, equal_nan=True)

    def test_a_call_without_inputs_is_refused(self, definition: Definition) -> None:
        """What is not known is said, never assumed."""
        with pytest.raises(NotReplayableError):
            definition(Call("Unknown"))
