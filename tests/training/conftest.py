"""Small demonstrations for every test of this package."""

from pathlib import Path

import pytest

from tests.training.training_for_tests import write_demonstrations


@pytest.fixture(scope="session")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four episodes of 9, 2, 7 and 6 steps."""
    return write_demonstrations(tmp_path_factory.mktemp("demonstrations"))
