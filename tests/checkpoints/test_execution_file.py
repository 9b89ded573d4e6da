"""A run and a bundle hold how their chunks are executed, without new weights."""

from pathlib import Path

import pytest
import torch

from act_policy.checkpoints.bundle import to_checkpoint
from act_policy.checkpoints.execution_file import EXECUTION_FILE, write_execution
from act_policy.checkpoints.locate import identity
from act_policy.checkpoints.open import open_policy
from act_policy.errors import UserError
from act_policy.execution import Execution
from tests.control.onnx_for_tests import SCHEMA
from tests.policy_for_tests import smallest_policy

TUNED = Execution(2, reason="best of three")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    policy = smallest_policy(SCHEMA)
    policy.execution = Execution(3, reason="planned")
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    torch.save(to_checkpoint(policy), tmp_path / "run" / "checkpoints" / "best.ckpt")
    return tmp_path / "run"


@pytest.mark.parametrize("named", [".", "checkpoints/best.ckpt"])
def test_a_run_is_tuned(named: str, run: Path) -> None:
    assert open_policy(run / named).execution == Execution(3, reason="planned")
    before = identity(run)
    assert write_execution(run / named, TUNED) == run / EXECUTION_FILE
    assert open_policy(run / named).execution == TUNED
    assert identity(run) == before


def test_a_bundle_is_tuned_and_keeps_it(run: Path, tmp_path: Path) -> None:
    write_execution(run, TUNED)
    bundle = tmp_path / "bundle"
    open_policy(run).save(bundle)
    assert open_policy(bundle).execution == TUNED
    assert write_execution(bundle, Execution(None, 0.1)) == bundle / "config.json"
    assert open_policy(bundle).execution == Execution(None, 0.1)


def test_a_policy_that_holds_nothing_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(b"graph")
    assert write_execution(tmp_path / "policy.onnx", TUNED) is None
    assert [path.name for path in tmp_path.iterdir()] == ["policy.onnx"]


@pytest.mark.parametrize("text", ["{", '{"execute_steps": 0}'])
def test_a_broken_file_is_named(text: str, run: Path) -> None:
    (run / EXECUTION_FILE).write_text(text)
    with pytest.raises(UserError, match=r"execution\.json"):
        open_policy(run)
