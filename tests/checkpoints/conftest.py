"""A checkpoint as LeRobot saves it, written from a small policy."""

import os
import shutil
from pathlib import Path

import pytest

from act_policy.checkpoints.lerobot.checkpoint import save_lerobot
from act_policy.model.policy import ACTPolicy
from tests.checkpoints.lerobot_for_tests import EXPRESSIBLE
from tests.export.export_for_tests import make_policy


@pytest.fixture(scope="session")
def policy() -> ACTPolicy:
    return make_policy(**EXPRESSIBLE)


@pytest.fixture(scope="session")
def exported(policy: ACTPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lerobot") / "exported"
    save_lerobot(policy, folder)
    return folder


@pytest.fixture
def checkpoint(exported: Path, tmp_path: Path) -> Path:
    """A copy to spoil; the weights are a link until they are written."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(exported, folder, copy_function=os.link)
    return folder
