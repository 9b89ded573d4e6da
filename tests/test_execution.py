"""How a policy's chunks are executed by default."""

from typing import Any

import pytest

from act_policy.errors import UserError
from act_policy.execution import Execution


def test_plain_values_and_back() -> None:
    for execution in (Execution(), Execution(4, reason="tuned"), Execution(None, 0.01)):
        assert Execution.from_dict(execution.to_dict()) == execution
    assert Execution.from_dict(None) == Execution()


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"execute_steps": 0}, "execute_steps=0"),
        ({"execute_steps": "4"}, "execute_steps='4'"),
        ({"ensemble_coefficient": "0.1"}, "ensemble_coefficient=0.1: expected a number"),
        ({"execute_steps": 4, "ensemble_coefficient": 0.1}, "leave one of the two out"),
        ({"steps": 4}, "unknown fields steps"),
        (["execute_steps"], "expected a table"),
    ],
)
def test_impossible_values_are_refused(plain: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Execution.from_dict(plain)


def test_what_is_asked_for_replaces_all_of_it() -> None:
    own = Execution(ensemble_coefficient=0.01, reason="tuned")
    assert own.unless(None, None) == own
    assert own.unless(4, None) == Execution(4)
    assert Execution(4, reason="tuned").unless(None, 0.1) == Execution(None, 0.1)
