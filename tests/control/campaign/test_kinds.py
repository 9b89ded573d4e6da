"""A base stops, and what is not known does not move: through the real commands."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from act_policy import Schema
from tests.control.campaign.drive import drive
from tests.control.campaign.fake_policy import LEKIWI, SO101, write_sine_policy

CONFIG = "[timing]\nexecute_steps = 30\n[safety]\nmax_answer_time = 5\nmax_tick_time = 5\n"


def test_a_base_of_lerobots_names_rests_at_0_after_a_stop_and_at_the_end(tmp_path: Path) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", LEKIWI)
    life = drive(tmp_path, policy, [(0.0, "\n"), (2.0, " "), (3.0, "q")], config=CONFIG)
    assert "operator stop" in life.kinds()
    stopped = next(at for at, kind, _ in life.events if kind == "operator stop")
    for name in ("x.vel", "y.vel", "theta.vel"):
        assert np.abs(life.values(name)).max() > 0.05
        assert (life.values(name)[life.times() > stopped + 0.05] == 0).all()
    assert (life.times() > stopped + 0.05).sum() > 10


def unnamed_shoulder() -> Schema:
    names, units = ("main_shoulder_pan", *SO101.action_names[1:]), ("",) * 6
    return replace(
        SO101, state_names=names, action_names=names, state_units=units, action_units=units
    )


def test_what_nobody_names_is_checked_and_refused_before_it_moves(tmp_path: Path) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", unnamed_shoulder())
    life = drive(tmp_path, policy, [], command="check", config=CONFIG, options=["--seconds", "1"])
    assert life.code == 2
    assert "problem   action main_shoulder_pan: neither its unit (unknown) nor its" in life.output
    assert "action    elbow_flex.pos (position): -22 to 22 (unit unknown)" in life.output
    refused = drive(tmp_path, policy, config=CONFIG)
    assert refused.code == 2
    assert refused.error.startswith("error: not started: action main_shoulder_pan: neither")
    assert refused.sent == []


@pytest.mark.slow
def test_what_the_file_names_moves(tmp_path: Path) -> None:
    policy = write_sine_policy(tmp_path / "policy.onnx", unnamed_shoulder())
    said = CONFIG + "[joints.main_shoulder_pan]\nkind = 'position'\n"
    life = drive(tmp_path, policy, [(0.0, "\n"), (1.0, "q")], config=said)
    assert (life.code, life.error) == (0, "")
    assert life.sent != []
