"""Where the repository and what lies beside it are, for every test."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = Path(os.environ.get("ACT_POLICY_SAMPLES") or ROOT.parent / "shared" / "samples")
"""Files written by other people's software; may be absent."""
