"""Schemas of files, the words of earlier versions among them."""

import json
from dataclasses import replace
from pathlib import Path

import h5py
import pytest

from act_policy.data.aloha.episode import write_episode
from act_policy.data.open import open_dataset
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from act_policy.types import Schema
from tests.data.episodes_for_tests import make_arrays, make_schema

SCHEMA = make_schema()


def older(schema: Schema) -> dict[str, object]:
    plain = schema.to_dict()
    plain["task"] = plain.pop("environment")
    return plain


def test_an_environment_was_called_task() -> None:
    assert older(SCHEMA)["task"] == SCHEMA.environment
    assert Schema.from_dict(older(SCHEMA)) == Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    with pytest.raises(UserError, match="unknown fields task"):
        Schema.from_dict({**SCHEMA.to_dict(), "task": "another"})


def test_older_episodes_fit_newer_ones(tmp_path: Path) -> None:
    for number in range(2):
        path = tmp_path / f"episode_{number}.hdf5"
        write_episode(path, SCHEMA, **make_arrays(SCHEMA, 3, number))
    with h5py.File(tmp_path / "episode_0.hdf5", "r+") as file:
        assert "task" not in json.loads(file.attrs["schema"])
        file.attrs["schema"] = json.dumps(older(SCHEMA))
    assert open_dataset(tmp_path).schema == SCHEMA


def test_a_schema_says_who_demonstrated_but_anybody_may(tmp_path: Path) -> None:
    assert "teacher" not in SCHEMA.to_dict()
    original = replace(SCHEMA, teacher="original")
    assert Schema.from_dict(original.to_dict()) == original
    assert SCHEMA.differences(original) == original.differences(SCHEMA) == []
    for name, schema in (("one", SCHEMA), ("two", original)):
        path = tmp_path / name / "episode_0.hdf5"
        write_episode(path, schema, **make_arrays(schema, 3, ord(name[0])))
    assert open_dataset(tmp_path / "two").schema == original
    mix = [{"path": tmp_path / "two"}]
    assert open_demonstrations(tmp_path / "one", mix=mix).schema.teacher == ""
    write_episode(tmp_path / "one" / "episode_1.hdf5", original, **make_arrays(SCHEMA, 3, 5))
    with pytest.raises(UserError, match="teacher: '' here, 'original' there"):
        open_dataset(tmp_path / "one")
