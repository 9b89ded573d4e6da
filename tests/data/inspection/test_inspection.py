"""The report as a whole: statistics, page and script."""

import re

import h5py
import numpy as np
import pytest

from act_policy.data.inspection import page as page_module
from act_policy.data.inspection.evidence import InspectionConfig, report_dimensions
from act_policy.data.inspection.finding import Kind, Verdict
from act_policy.data.inspection.inspect import inspect_before_training, inspect_folder
from act_policy.data.inspection.page import inspection_page
from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from act_policy.report.page import write_page
from tests.browser import headings, image_widths, opened
from tests.data.motion_for_tests import aloha_motion, lerobot_motion
from tests.scripts_for_tests import call_script


def stuck(_, state, action):
    """Plant a warning: a joint whose position is not recorded."""
    state[:, 0] = 0.3


def remarks(dataset, **options):
    rows = report_dimensions(dataset, **options)
    return {(row.field, row.name): row.remark for row in rows if row.remark}


def test_the_numbers_are_those_of_all_steps(tmp_path):
    dataset = aloha_motion(tmp_path)
    every = np.concatenate([dataset.action(e) for e in range(2)]).astype(np.float64)
    row = next(r for r in report_dimensions(dataset) if (r.field, r.name) == ("action", "j1"))
    assert row.unit == "rad"
    expected = [f(every[:, 1]) for f in (np.mean, np.std, np.min, np.max)]
    np.testing.assert_allclose([row.mean, row.std, row.min, row.max], expected, rtol=1e-12)


def test_constant_nearly_constant_and_broken_dimensions_are_reported(tmp_path):
    def change(_, state, action):
        state[:, 0] = 0.3
        action[:, 1] = 0.3 + 1e-5 * action[:, 1]
        action[:, 2] *= 50

    dataset = aloha_motion(tmp_path, change)
    nearly = "nearly constant: std below the floor 0.01"
    assert remarks(dataset) == {("state", "j0"): "constant", ("action", "j1"): nearly}
    assert remarks(dataset, std_floor=1e-7) == {("state", "j0"): "constant"}
    with h5py.File(dataset.episodes[1].file, "a") as file:
        file["observations/qpos"][:, 1] = np.nan
    assert remarks(open_dataset(tmp_path))["state", "j1"] == "60 values are not finite"


@pytest.mark.parametrize(
    "config", [{"std_floor": 0.0}, {"undecodable": "ask"}, {"chunk_length": 0}]
)
def test_impossible_settings_are_refused(config):
    with pytest.raises(UserError, match=next(iter(config))):
        InspectionConfig(**config)


def test_the_check_before_training_gives_the_same_findings(tmp_path):
    dataset = aloha_motion(tmp_path, stuck, lengths=(60,) * 5)
    with h5py.File(dataset.episodes[2].file, "a") as file:
        file["observations/images/top"][...] = 0
    findings = inspect_before_training(dataset, InspectionConfig(chunk_length=8))
    assert [f.kind for f in findings] == [Kind.CONSTANT, Kind.BLACK_CAMERA]


def test_only_some_of_many_episodes_are_shown_but_all_are_checked(tmp_path):
    dataset = aloha_motion(tmp_path, lengths=(12,) * 7)
    with h5py.File(dataset.episodes[2].file, "a") as file:
        file["observations/images/top"][...] = 0
    inspection = inspect_folder(tmp_path, InspectionConfig(), shown_episodes=3)
    assert inspection.shown == [0, 3, 6]
    assert {seen.episode for seen in inspection.looks} == {0, 3, 6}
    assert Kind.BLACK_CAMERA in {finding.kind for finding in inspection.findings}
    assert "3 of 7 are shown in full, spread over all" in inspection_page(inspection)


def test_episodes_that_a_warning_names_are_shown(tmp_path):
    aloha_motion(tmp_path, lengths=(60,) * 4 + (20,) + (60,) * 5)
    inspection = inspect_folder(tmp_path, InspectionConfig(), shown_episodes=3)
    assert inspection.shown == [0, 4, 9]


def test_the_page_stays_below_its_limit_and_says_so(tmp_path, monkeypatch):
    aloha_motion(tmp_path, lengths=(60,) * 4)
    inspection = inspect_folder(tmp_path, InspectionConfig(), shown_episodes=4)
    whole = inspection_page(inspection)
    assert "4 of 4 are shown in full." in whole
    monkeypatch.setattr(page_module, "MOST_BYTES", len(whole) // 2)
    short = inspection_page(inspection)
    assert re.search(r"[12] of 4 are shown in full\.", short)
    assert len(short) < len(whole) * 3 // 4


def test_long_curves_keep_their_extremes():
    values = np.zeros(10_000)
    values[[1234, 5678]] = 7, -3
    seconds, kept = page_module._thin(values, 50.0)
    assert len(kept) <= page_module.POINTS
    assert (kept.max(), kept.min()) == (7, -3)
    assert seconds[kept.argmax()] == pytest.approx(1234 / 50)


@pytest.mark.parametrize("write", [aloha_motion, lerobot_motion])
def test_a_browser_shows_findings_images_and_curves(tmp_path, write):
    write(tmp_path / "data", stuck)
    inspection = inspect_folder(tmp_path / "data", InspectionConfig(), shown_episodes=50)
    names = [episode.name for episode in inspection.dataset.episodes]
    out = tmp_path / "page.html"
    write_page(out, inspection_page(inspection))
    with opened(out) as page:
        assert headings(page) == [
            "Findings",
            "Schema",
            "Ranges and statistics",
            "What the actions are",
            "Length of the episodes",
            "Episodes",
            *names,
        ]
        widths = image_widths(page)
        assert len(widths) == 2 * 8
        assert all(widths)
        text = page.inner_text("body")
        assert "the same at every step: state" in text
        assert "1 warning" in text
        assert page.locator("svg").count() == 1 + 2 * 2


def test_a_folder_without_a_readable_file_still_has_a_page(make_folder):
    folder = make_folder([4])
    (folder / "episode_000000.hdf5").write_bytes(b"")
    inspection = inspect_folder(folder, InspectionConfig(), shown_episodes=5)
    assert inspection.dataset is None
    assert inspection.count(Verdict.ERROR) == 1
    assert "is not a readable HDF5 file" in inspection_page(inspection)


def inspect(*arguments, cwd):
    return call_script("inspect_dataset.py", *arguments, cwd=cwd, COLUMNS="120")


def test_the_script_prints_a_summary_and_writes_a_page(tmp_path):
    aloha_motion(tmp_path / "data", stuck, outcomes=(True, True))
    result = inspect("path=data", "strict=true", cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    for text in ("episodes", "120, 12.0 s", "shortest 60, median 60", "10 steps per second"):
        assert text in result.stdout
    for text in ("2 of 2 succeeded", "top", "j2", "rad", "constant dimensions", "1 warning"):
        assert text in result.stdout
    assert (tmp_path / "data.inspection.html").is_file()
    assert inspect("path=data", "out=page.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "page.html").is_file()


def test_the_script_exits_with_2_if_training_is_impossible(make_folder, tmp_path):
    folder = make_folder([12, 15])
    (folder / "episode_000000.hdf5").write_bytes(b"no HDF5")
    result = inspect(f"path={folder}", cwd=tmp_path)
    assert result.returncode == 2
    assert "training is impossible: " in result.stderr
    assert "episode_000000.hdf5: is not a readable HDF5 file" in result.stderr
    assert "episode_000000.hdf5" in result.stdout
    assert (tmp_path / "episodes.inspection.html").is_file()
    for arguments, message in (((f"path={folder}/nothing",), "no such folder"), ((), "path")):
        result = inspect(*arguments, cwd=tmp_path)
        assert result.returncode == 2
        assert message in result.stderr
        assert "Traceback" not in result.stderr
        assert result.stdout == ""
