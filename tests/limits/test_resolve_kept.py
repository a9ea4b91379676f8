"""Limits are worked out once for many pairs; no pair gets another one's."""

import datetime
import pickle

import pytest

from pytest_msdump.core.limits.policy import KnownDrift, Policy, Rule
from pytest_msdump.core.limits.resolve import resolve
from pytest_msdump.core.model.tensor import OpKey, TensorKey

UNTIL = datetime.date(2030, 1, 1)
DTYPES = ("float32", "float16", "bfloat16", "int32")
KEYS = [
    TensorKey(OpKey(name, op_type=kind), "output", 0)
    for name in ("conv1", "conv2", "fc1", "pool1")
    for kind in ("A", "B")
]


def policy():
    return Policy(
        rules=(
            Rule({"cosine_similarity": (0.9, None)}, match="conv*", label="conv"),
            Rule({"max_absolute_error": (1.0, 0.5)}, op_type=("A",), rtol=0.25, label="A"),
            Rule({"cosine_similarity": (0.8, None)}, match="*1", dtype="float16", label="half"),
        ),
        known_drift=(KnownDrift("fc*", "slow", UNTIL, {"cosine_similarity": (0.5, None)}),),
    )


@pytest.mark.parametrize("today", [UNTIL, UNTIL + datetime.timedelta(1)])
def test_a_shared_policy_gives_each_pair_the_limits_of_a_policy_of_its_own(today):
    shared, travelled = policy(), pickle.loads(pickle.dumps(policy()))
    found = set()
    for _ in range(2):
        for key in KEYS:
            for left in DTYPES:
                for right in DTYPES:
                    asked = {"left": key, "right": key, "left_dtype": left, "right_dtype": right, "today": today}
                    alone = resolve(policy(), **asked)
                    assert resolve(shared, **asked) == alone
                    assert resolve(travelled, **asked) == alone
                    found.add(alone)
    # Names, types and dtypes all make a difference, so there is something to confuse.
    assert len(found) > len(DTYPES) * 3


def test_what_was_worked_out_is_no_part_of_a_policy():
    used = policy()
    before = repr(used)
    resolve(used, left=KEYS[0], right=KEYS[0], left_dtype="float32", right_dtype="float32")
    assert repr(used) == before
    assert used == policy()
    assert used.resolved
    assert not policy().resolved
