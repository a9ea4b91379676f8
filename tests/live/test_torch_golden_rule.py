"""The golden rule is the one that PyTorch tests its compiler by: `torch._dynamo.utils.same` itself says the same."""

import numpy as np
import pytest

from pytest_msdump.capabilities.three_way.golden import golden_errors, golden_ratios
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.limits.resolve import GOLDEN_RULE_METRIC, resolve
from pytest_msdump.core.model.comparison import ThreeWay
from pytest_msdump.core.model.tensor import OpKey, TensorKey

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.live

KEY = TensorKey(OpKey("fc"), "output", 0)
SHAPES = [(1,), (10,), (11,), (500,), (501,), (999,), (1000,), (10, 100), (8, 125, 1, 1), (8, 125, 1), (20, 5, 5, 2)]


def view(tensor):
    # NumPy has no bfloat16.
    return (
        ArrayView(tensor.float().numpy(), "bfloat16") if tensor.dtype is torch.bfloat16 else ArrayView(tensor.numpy())
    )


def limit_of(dtype, shape):
    limits = resolve(Policy(has_golden=True), left=KEY, right=KEY, left_dtype=dtype, right_dtype=dtype, golden=shape)
    return next(limit.bound for limit in limits.limits if limit.metric == GOLDEN_RULE_METRIC)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_our_verdict_is_that_of_pytorch(dtype, shape):
    from torch._dynamo.utils import same

    random = np.random.default_rng(shape)
    kind, verdicts = getattr(torch, dtype), []
    for size in np.geomspace(1, 40, 60):
        golden = torch.from_numpy(random.standard_normal(shape))
        # Far above one rounding, which is the least that we count.
        run = [
            (golden + scale * torch.from_numpy(random.standard_normal(shape))).to(kind) for scale in (0.3 * size, 0.3)
        ]
        found = ThreeWay("golden", "right", *(golden_errors(view(one), view(golden))[0] for one in run))
        ratio = golden_ratios(found, dtype=dtype, floor=0.0, without={})[GOLDEN_RULE_METRIC].value
        ours = ratio <= limit_of(dtype, shape)
        theirs = same(
            run[1], run[0], golden, tol=0.0, use_larger_multiplier_for_smaller_tensor=True, log_error=lambda *_: None
        )
        # PyTorch computes in float64 as well, in another order.
        assert ours == theirs or ratio == pytest.approx(limit_of(dtype, shape), rel=1e-9)
        verdicts.append(theirs)
    assert {True, False} == set(verdicts)
