"""Fixtures shared by every test."""

from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of files written by other people's software; skipped where it is absent."""
    if not SAMPLES.is_dir():
        pytest.skip("the samples written by other software are not beside this checkout")
    return SAMPLES
