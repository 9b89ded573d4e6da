"""Episodes with several instructions: each is counted, and its steps can be selected."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from act_policy.data.conversion.convert import convert
from act_policy.data.inspection.evidence import Evidence, InspectionConfig
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.inspection.number_findings import find
from act_policy.data.lerobot.features import write_tasks
from act_policy.data.lerobot.staging import LeRobotWriterConfig
from act_policy.data.open import open_dataset
from act_policy.data.selection.demonstrations import open_demonstrations
from act_policy.errors import UserError
from tests.data.lerobot_for_tests import change_table
from tests.data.oddities_for_tests import LENGTHS, LEROBOT, rgb, write_lerobot

TASKS = ["open it", "close it"]


@pytest.fixture(params=LEROBOT)
def folder(request, tmp_path):
    """Three episodes; in the first half of each one thing is to be done, then the other."""
    folder = write_lerobot(tmp_path / "a", request.param, {"observation.images.top": rgb})
    halves = [np.arange(steps) >= steps // 2 for steps in LENGTHS]
    v3 = request.param == "v3.0"
    parts = [np.concatenate(halves)] if v3 else halves
    for path, half in zip(sorted(folder.glob("data/*/*")), parts, strict=True):
        change_table(path, lambda c, half=half: c.update(task_index=half.astype(int).tolist()))
    if v3:
        write_tasks(folder / "meta/tasks.parquet", TASKS)
        path = folder / "meta/episodes/chunk-000/file-000.parquet"
        change_table(path, lambda c: c.update(tasks=[TASKS] * len(LENGTHS)))
    else:
        path = folder / "meta/episodes.jsonl"
        path.write_text(path.read_text().replace('["push"]', json.dumps(TASKS)))
        lines = [json.dumps({"task_index": i, "task": text}) for i, text in enumerate(TASKS)]
        (folder / "meta/tasks.jsonl").write_text("\n".join(lines))
    return folder


def test_each_is_found_with_its_steps(folder):
    dataset = open_dataset(folder)
    for episode, steps in enumerate(LENGTHS):
        told = dataset.instructions(episode)
        assert list(told) == TASKS
        np.testing.assert_array_equal(told["close it"], np.arange(steps) >= steps // 2)
        np.testing.assert_array_equal(told["open it"], ~told["close it"])
    found = find(Evidence(dataset, InspectionConfig()))
    (finding,) = [f for f in found if f.kind is Kind.INSTRUCTIONS]
    assert finding.verdict is Verdict.NOTE
    assert finding.detail["episodes_of"] == {"open it": 3, "close it": 3}


def test_the_steps_of_one_are_selected(folder):
    plain = open_dataset(folder)
    for text, part in (("open it", slice(0, 3)), ("close it", slice(3, 7))):
        view = open_demonstrations(folder, {"instruction": text})
        np.testing.assert_array_equal(view.action(1), plain.action(1)[part])
        np.testing.assert_array_equal(view.frame(1, 0, "top"), rgb(1, part.start))
        assert {episode.instruction for episode in view.episodes} == {text}
        assert [list(view.instructions(e)) for e in range(3)] == [[text]] * 3
    with pytest.raises(UserError, match=r"has 'shut it'; there are 'open it'; 'close it'"):
        open_demonstrations(folder, {"instruction": "shut it"})


def test_a_conversion_keeps_them_or_says_so(folder, tmp_path):
    source, out = open_dataset(folder), tmp_path / "b"
    convert(source, out, "lerobot_v3", LeRobotWriterConfig(images="png"), workers=1)
    for episode, told in enumerate(map(source.instructions, range(3))):
        np.testing.assert_equal(open_dataset(out).instructions(episode), told)
    said = convert(source, tmp_path / "c", "aloha_hdf5", workers=1)
    assert "3 of 3 episodes had several instructions" in said
    assert open_dataset(tmp_path / "c").episodes[0].instruction == "open it; close it"


def test_where_no_step_names_its_task_the_episode_has_one_text(folder):
    for path in folder.glob("data/*/*"):
        rows = pq.read_table(path).num_rows
        change_table(path, lambda c, rows=rows: c.update(task_index=[7] * rows))
    dataset = open_dataset(folder)
    assert [list(dataset.instructions(e)) for e in range(3)] == [["open it; close it"]] * 3
