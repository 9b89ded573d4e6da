"""`run --record` on the simulated arm: what is said whatever becomes of the recording."""

import subprocess
import sys
from pathlib import Path

import pytest

from act_policy.data.open import open_dataset
from tests.control import onnx_for_tests

RUN = """
import sys
from act_policy.control.commands.command_line import main
from act_policy.control.recording import recording
if "full" in sys.argv[1]:
    def full(*arguments, **options):
        raise recording.UserError("episode_000000.hdf5: the episode could not be written")
    recording._to_episode = full
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("disk", ["full", pytest.param("empty", marks=pytest.mark.slow)])
def test_a_full_disk_keeps_the_summary(tmp_path: Path, disk: str) -> None:
    policy = onnx_for_tests.write_calm_policy(tmp_path / "p.onnx")
    folder = tmp_path / "recorded"
    words = ["run", "--policy", str(policy), "--robot", "simulated", "--seconds", "1"]
    words += ["--record", str(folder), "--task", "hold still"]
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as said, err.open("w") as complained:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, disk, *words],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=complained,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()  # and stays open: a keyboard that goes away stops the arm
        code = process.wait(60)
        process.stdin.close()
    assert "ended by the time limit" in out.read_text()
    assert "start: 1" in out.read_text()
    if disk == "full":
        assert code == 2
        assert "the episode could not be written" in err.read_text()
        assert [path.suffix for path in folder.iterdir()] == [".journal"]
    else:
        assert "recorded" in out.read_text()
        assert open_dataset(folder).episodes[0].instruction == "hold still"
