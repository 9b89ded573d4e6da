"""Every method at every delay: measured once, continued after an interruption, and tabulated."""

from pathlib import Path

import numpy as np
import pytest

from act_policy import UserError
from act_policy.evaluation.delays import (
    METHODS,
    Cell,
    main,
    measure_cells,
    summarise_cells,
)
from act_policy.evaluation.rollouts.delays import make_executor
from act_policy.evaluation.rollouts.run import play_episode
from act_policy.evaluation.sections.delays_report import draw_cells, tabulate_cells
from tests.evaluation.evaluation_for_tests import SCHEMA, SeeingPolicy, build, load


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "policy.ckpt"
    path.write_bytes(b"weights")
    return path


def test_what_is_there_is_not_measured_again(checkpoint: Path, tmp_path: Path) -> None:
    cells = [Cell(checkpoint, method, delay, 2) for method in METHODS for delay in (0, 2)]
    out = tmp_path / "out"
    results = measure_cells(cells[:3], [10, 11], out, build, 1, load)
    kept = {path: path.stat().st_mtime_ns for path in out.rglob("*.npz")}
    assert len(kept) == 3 * 2
    results = measure_cells(cells, [10, 11, 12], out, build, 2, load)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for cell, episodes in results.items():
        assert [one.seed for one in episodes] == [10, 11, 12]
        for one in episodes:
            executor = make_executor(SeeingPolicy(), *cell.settings, cell.lateness, one.seed)
            again = play_episode(build(SCHEMA), executor, one.seed)
            np.testing.assert_array_equal(again.actions, one.actions)
            assert again.captured is not None
            assert one.captured is not None
            np.testing.assert_array_equal(again.captured, one.captured)


def test_other_weights_are_other_episodes(checkpoint: Path, tmp_path: Path) -> None:
    cell = Cell(checkpoint, "blending", 2, None)
    before = cell.folder(tmp_path)
    checkpoint.write_bytes(b"later weights")
    assert cell.folder(tmp_path) != before


def test_another_way_of_executing_is_other_episodes(checkpoint: Path, tmp_path: Path) -> None:
    cells = {
        Cell(checkpoint, method, delay, steps, moved)
        for method in METHODS
        for delay in (0, 2)
        for steps in (None, 2)
        for moved in (None, 20)
    }
    assert len({cell.folder(tmp_path) for cell in cells}) == len(cells)


def test_the_tables_have_a_row_for_each_method(checkpoint: Path, tmp_path: Path) -> None:
    cells = [Cell(checkpoint, method, delay, 2) for method in METHODS for delay in (0, 2)]
    results = measure_cells(cells, [10, 11], tmp_path / "out", build, 1, load)
    demonstrations = [np.full((30, 1), 0.05, np.float32).cumsum(axis=0)]
    summaries = summarise_cells(results, demonstrations, SCHEMA)
    tables = tabulate_cells(summaries).split("\n\n")
    assert tables[0].splitlines()[0] == "| successes (95% interval); delay in steps | 0 | 2 |"
    assert "of 2 (" in tables[0]
    for table in tables:
        assert len(table.splitlines()) == 2 + len(METHODS)
    # the arm that waits reacts later, the later the answers are
    waits = [cell for cell in summaries if cell["method"] == "stop and wait"]
    assert waits[0]["motion"]["reaction"] < waits[1]["motion"]["reaction"]
    assert waits[0]["motion"]["largest_jump"] is not None
    draw_cells(summaries, tmp_path / "delays.png")
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")


def test_an_environment_is_named_where_it_is_missing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments = [str(tmp_path / "none"), "--demonstrations", str(tmp_path), "--out", "x"]
    assert main(arguments) == 2
    assert "error:" in capsys.readouterr().err


def test_ensembling_takes_no_execute_steps(checkpoint: Path) -> None:
    assert Cell(checkpoint, "ensembling", 2, 4).settings == (None, 0.01)
    assert Cell(checkpoint, "blending", 2, 4).settings == (4, None)
    with pytest.raises(UserError):
        make_executor(SeeingPolicy(), 9, None, Cell(checkpoint, "blending", 2, 9).lateness, 0)
