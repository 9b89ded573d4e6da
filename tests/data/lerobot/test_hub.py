"""A hub id is found where the hub's tools and LeRobot keep its files; nothing is downloaded."""

import subprocess
import sys

import pytest

from act_policy.data.dataset import DatasetWarning
from act_policy.data.inspection.file_findings import open_readable
from act_policy.data.lerobot import hub
from act_policy.data.open import open_dataset
from act_policy.data.reader_config import ReaderConfig
from act_policy.errors import UserError
from tests.data.lerobot_for_tests import write_lerobot

NAME = "someone/stack_cubes"


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HF_LEROBOT_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder):
    return write_lerobot(folder, lengths=(2,), kind="image")


def test_a_dataset_is_found_where_lerobot_keeps_it(home, monkeypatch):
    make(home / "hf" / "lerobot" / NAME)
    assert open_dataset(NAME).folder == home / "hf" / "lerobot" / NAME
    monkeypatch.setenv("HF_LEROBOT_HOME", str(home / "elsewhere"))
    with pytest.raises(UserError, match=r"elsewhere/someone/stack_cubes"):
        open_dataset(NAME)
    make(home / "elsewhere" / NAME)
    assert open_dataset(NAME).folder == home / "elsewhere" / NAME


@pytest.mark.parametrize("cache", ["hf/hub", "hf/lerobot/hub", "given"])
def test_a_dataset_is_found_in_a_cache_of_snapshots(home, monkeypatch, cache):
    if cache == "given":
        monkeypatch.setenv("HF_HUB_CACHE", str(home / "given"))
    repository = home / cache / "datasets--someone--stack_cubes"
    make(repository / "snapshots" / "aaaa")
    make(repository / "snapshots" / "bbbb")
    (repository / "snapshots" / "cccc").mkdir()  # of another, partial download, and the newest
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("bbbb")
    assert open_dataset(NAME).folder == repository / "snapshots" / "bbbb"
    (repository / "refs" / "v3.0").write_text("aaaa\n")
    assert open_dataset(NAME).folder == repository / "snapshots" / "aaaa"


def test_a_folder_of_that_name_comes_first(home):
    make(home / "hf" / "lerobot" / NAME)
    make(home / NAME)
    assert str(open_dataset(NAME).folder) == NAME


def test_a_missing_dataset_gives_the_searched_places_and_how_to_download_it(home):
    with pytest.raises(UserError, match=r"stack_cubes: no such folder, .*hf/lerobot/.*=true"):
        open_dataset(NAME)
    for path in ("/no/such", "a/b/c", "../x", "one"):
        with pytest.raises(UserError, match="no such folder of demonstrations"):
            open_dataset(path)


def test_a_download_happens_only_on_request(home, monkeypatch):
    asked = []

    class Hub:
        @staticmethod
        def snapshot_download(name, repo_type, local_dir, etag_timeout):
            asked.append((name, repo_type, etag_timeout))
            make(home / "hf" / "lerobot" / NAME)

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub)
    with pytest.raises(UserError):
        open_dataset(NAME)
    assert asked == []
    assert open_dataset(NAME, ReaderConfig(download=True)).folder == home / "hf" / "lerobot" / NAME
    open_dataset(NAME, ReaderConfig(download=True))
    assert asked == [(NAME, "dataset", 10)]


def test_an_incomplete_dataset_is_not_mistaken_for_a_shorter_one(home, monkeypatch):
    folder = write_lerobot(home / "hf" / "lerobot" / NAME, (2, 3), kind="image", per_file=1)
    last = folder / "data" / "chunk-000" / "file-001.parquet"
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(
        UserError,
        match=r"is incomplete in .* lacks data/chunk-000/file-001.*=true",
    ):
        open_dataset(NAME)
    assert not hub.is_at_hand(NAME)
    with pytest.raises(UserError, match="copy is incomplete"):
        open_dataset(folder)
    with pytest.warns(DatasetWarning, match="1 of 2 episodes are left out"):
        assert open_dataset(folder, ReaderConfig(unreadable="skip")).lengths.tolist() == [2]

    class Hub:
        @staticmethod
        def snapshot_download(*_, **__):
            last.write_bytes(content)

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub)
    assert open_dataset(NAME, ReaderConfig(download=True)).lengths.tolist() == [2, 3]
    make(home / "hf" / "hub" / "datasets--someone--stack_cubes" / "snapshots" / "aaaa")
    last.unlink()
    assert open_dataset(NAME).lengths.tolist() == [2]  # a complete one is preferred


def test_a_broken_dataset_in_the_cache_is_inspected_like_any_other(home):
    folder = write_lerobot(home / "hf" / "lerobot" / NAME, (2, 3), kind="image", per_file=1)
    (folder / "data" / "chunk-000" / "file-000.parquet").write_bytes(b"broken")
    dataset, (finding,) = open_readable(NAME, ReaderConfig(download=False))
    assert dataset is not None
    assert dataset.lengths.tolist() == [3]
    assert finding.detail["error"].path.name == "file-000.parquet"


def test_a_failed_download_gives_one_message(home, monkeypatch):
    class Hub:
        @staticmethod
        def snapshot_download(*_, **__):
            raise ConnectionError("no route to host")

    monkeypatch.setitem(sys.modules, "huggingface_hub", Hub)
    with pytest.raises(UserError, match=r"could not be downloaded \(ConnectionError: no route"):
        open_dataset(NAME, ReaderConfig(download=True))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match="pip install huggingface_hub"):
        open_dataset(NAME, ReaderConfig(download=True))


def test_looking_into_the_cache_does_not_import_the_hub(home):
    code = "import sys; import act_policy.data.dataset; print('huggingface_hub' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert hub.is_hub_id(NAME)


def test_a_resumed_run_finds_its_demonstrations_in_the_cache(tmp_path, home, monkeypatch):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path))
    assert not hub.is_at_hand("someone/arm")
    (tmp_path / "someone" / "arm" / "meta").mkdir(parents=True)
    (tmp_path / "someone" / "arm" / "meta" / "info.json").touch()
    assert hub.is_at_hand("someone/arm")
    assert hub.is_at_hand(tmp_path)
