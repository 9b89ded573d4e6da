"""Fixtures shared by every test."""

import os
from pathlib import Path

import hypothesis
import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "samples"
SAMPLES = Path(os.environ.get("ACT_POLICY_SAMPLES") or BESIDE)

hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of files written by other people's software; skipped where it is absent.

    The environment variable ACT_POLICY_SAMPLES names it.
    """
    if not SAMPLES.is_dir():
        pytest.skip(f"no samples written by other software at {SAMPLES}; see ACT_POLICY_SAMPLES")
    return SAMPLES
