"""The campaign's own ground: a robot without a fault."""

from pathlib import Path

import numpy as np

from tests.control.campaign.drive import drive
from tests.control.campaign.fake_policy import SO101, write_sine_policy

CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_tick_time = 5\n"


def test_an_arm_without_a_fault_swings_and_ends_at_rest(tmp_path: Path) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    life = drive(tmp_path, policy, [(0.0, "\n"), (3.0, "q")], config=CONFIG)
    assert life.error == ""
    assert life.code == 0
    assert life.kinds()[0] == "start"
    assert life.kinds()[-1] == "end"
    assert life.calls[0] == "connect"
    assert life.calls[-1] == "disconnect"
    assert np.ptp(life.values("shoulder_lift.pos")) > 15
    assert (np.abs(life.values("shoulder_lift.pos")) <= 21).all()
