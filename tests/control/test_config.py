"""The owner's file: every key is known or refused."""

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from act_policy import UserError
from act_policy.control.config import (
    JointConfig,
    SafetyConfig,
    TimingConfig,
    config_from_dict,
    read_config,
)
from tests.paths import ROOT

EXAMPLE = re.compile(r"```toml\n(.*?)```", re.DOTALL)


def test_the_example_in_the_docs_is_read(tmp_path: Path) -> None:
    docs = ROOT / "docs" / "robot.md"
    (example,) = EXAMPLE.findall(docs.read_text())
    (tmp_path / "robot.toml").write_text(example)
    config = read_config(tmp_path / "robot.toml")
    assert replace(config.safety, max_action_age=None, hold_time=None) == SafetyConfig()
    assert config.joints["shoulder_pan.pos"].max_speed == 60
    assert config.joints["wrist_roll.pos"].wraps == (-180, 180)
    assert config.cameras == {"front": "front"}


def test_the_example_in_the_docs_has_every_key() -> None:
    (example,) = EXAMPLE.findall((ROOT / "docs" / "robot.md").read_text())
    written = tomllib.loads(example)
    for table, config in (("safety", SafetyConfig), ("timing", TimingConfig)):
        assert set(written[table]) == {field.name for field in fields(config)}
    of_joints = {key for joint in written["joints"].values() for key in joint}
    assert of_joints == {field.name for field in fields(JointConfig)}


def test_json_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "robot.json").write_text('{"joints": {"x": {"low": -1, "high": 2}}}')
    config = read_config(tmp_path / "robot.json")
    assert config.joints == {"x": JointConfig(low=-1.0, high=2.0)}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"joint": {}}, "unknown joint; expected some of actions, cameras"),
        ({"joints": {"x": {"max_sped": 1}}}, r"joints\.x: unknown max_sped"),
        ({"joints": {"x": {"low": "0"}}}, r"joints\.x: low: found '0', expected float"),
        ({"joints": {"x": {"low": 1, "high": 1}}}, "expected low < high"),
        ({"joints": {"x": {"max_speed": 0}}}, "expected a positive number"),
        ({"joints": {"x": {"high": float("nan")}}}, "expected a finite number"),
        ({"joints": {"x": {"kind": "speed"}}}, "found 'speed', expected one of position"),
        ({"joints": {"x": {"hold": "park"}}}, "unknown hold"),
        ({"joints": {"x": {"high": 1, "park": 2}}}, r"x\.park is 2\.0; expected a place from -inf"),
        ({"safety": {"failed_reads": -1}}, "expected 0 or more"),
        ({"joints": {"x": {"wraps": [1]}}}, "expected a list of 2"),
        ({"joints": {"x": {"wraps": [1, 0]}}}, r"expected \[from, to\]"),
        ({"safety": {"max_answer_time": -1}}, "expected a positive number"),
        ({"safety": {"frozen_camera_time": -1}}, "expected 0 or more"),
        ({"timing": {"threads": 1.5}}, "expected int"),
        ({"timing": {"threads": True}}, "expected int"),
        ({"timing": {"blend_steps": -1}}, "blend_steps is -1; expected 0 or more"),
        ({"ignore": "wrist"}, "expected a list"),
        ({"cameras": ["front"]}, "expected a table"),
    ],
)
def test_unknown_keys_and_wrong_values_are_refused(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        config_from_dict(plain)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("joints = [")
    with pytest.raises(UserError, match=r"bad\.toml: cannot be parsed"):
        read_config(tmp_path / "bad.toml")
