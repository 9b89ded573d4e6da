"""Commands are cut to range, speed and distance from the arm, and counted."""

from pathlib import Path

import numpy as np
import pytest

from tests.control.campaign.drive import drive
from tests.control.campaign.fake_policy import RATE, SO101, write_sine_policy

CONFIG = """
[timing]
execute_steps = 55
[safety]
max_tick_time = 5
tracking_time = 0
[joints."shoulder_lift.pos"]
low = -10
high = 10
max_speed = 200
max_step = 90
[joints."elbow_flex.pos"]
max_speed = 20
max_step = 90
[joints."wrist_flex.pos"]
max_speed = 200
max_step = 5
"""


@pytest.mark.slow
def test_what_the_owner_does_not_allow_is_cut_and_counted(tmp_path: Path) -> None:
    """The arm is stalled: its measured position stays where it was. A chunk goes both ways."""
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    life = drive(tmp_path, policy, [(0.0, "\n"), (2.2, "q")], fault="stalled", config=CONFIG)
    assert (life.code, life.error) == (0, "")
    lift, elbow, wrist = (
        life.values(f"{joint}.pos") for joint in ("shoulder_lift", "elbow_flex", "wrist_flex")
    )
    assert (lift.min(), lift.max()) == (-10, 10)
    assert np.abs(np.diff(elbow)).max() <= 20 / RATE + 1e-3
    assert np.ptp(elbow) > 10
    assert np.abs(wrist).max() == 5
    assert np.abs(life.values("shoulder_pan.pos")).max() > 19  # as the policy asks
    for kind in ("range limit: shoulder_lift", "speed limit: elbow_flex", "step limit: wrist_flex"):
        assert f"{kind}.pos" in life.kinds()
        assert f"  {kind}.pos: " in life.output
