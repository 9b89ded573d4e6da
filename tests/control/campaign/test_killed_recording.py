"""A run that is killed amid an episode: all that was recorded is there afterwards."""

import signal
from pathlib import Path

import numpy as np
import pytest

from act_policy.control.commands.command_line import main
from act_policy.control.recording.journal import read_journal
from act_policy.control.recording.lerobot import RECORDED
from act_policy.data.open import open_dataset
from act_policy.data.selection.demonstrations import open_demonstrations
from tests.control.campaign.drive import LIMITS, Life, Person, drive
from tests.control.campaign.fake_policy import SO101, SO101_NAMES, write_sine_policy

CONFIG = (
    "[timing]\nexecute_steps = 30\n[safety]\nmax_answer_time = 5\nmax_tick_time = 5\n"
    + "".join(
        LIMITS.format(name=name).replace("approach_speed = 10", "approach_speed = 60")
        for name in SO101_NAMES
    )
)
LEADER = "tests.control.campaign.fake_robots:leader"
TASK = "close the drawer"


def live(person: Person) -> None:
    """A stretch that a person takes over and ends, and one that is killed in their hands."""
    for end in ("operator stop", "kill"):
        person.press("\n")
        person.wait("running")
        person.look_on(0.5)
        person.press("t")
        person.wait("handover")
        person.wait("running")
        person.look_on(0.7)
        if end == "operator stop":
            person.press("t")
            person.wait("handover")
            person.look_on(0.3)
            person.press(" ")
            person.wait(end)
            person.look_on(0.3)
    person.press(signal.SIGKILL)


def sent_in_motion(life: Life) -> list[np.ndarray]:
    """The commands (T, a) of each stretch: from the first that the policy moved to its end."""
    stretches, begin = [], np.inf
    events = [*life.events, (np.inf, "killed", "")]
    for at, kind, _ in events:
        if kind == "running" and begin == np.inf:
            begin = at
        elif kind in ("operator stop", "killed") and begin < np.inf:
            rows = [action for then, action in life.sent if begin <= then < at]
            stretches.append(np.array([[row[name] for name in SO101_NAMES] for row in rows]))
            begin = np.inf
    return stretches


def find_in(sent: np.ndarray, recorded: np.ndarray) -> list[int]:
    """Where in the commands sent the recorded ones are, in order; a late loop looks less often."""
    rows: list[int] = []
    for row, command in enumerate(sent):
        if len(rows) < len(recorded) and np.allclose(recorded[len(rows)], command, atol=1e-3):
            rows.append(row)
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("form", ["lerobot", "hdf5"])
def test_a_kill_loses_nothing_that_was_recorded(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recorded"
    policy = write_sine_policy(tmp_path / "policy.onnx", SO101)
    options = ["--record", str(folder), "--record-format", form, "--task", TASK]
    life = drive(tmp_path, policy, live, config=CONFIG, options=[*options, "--operator", LEADER])
    assert life.code == -signal.SIGKILL
    journals = sorted((folder / RECORDED if form == "lerobot" else folder).glob("*.journal"))
    kept = [read_journal(path) for path in journals]
    first, killed = sent_in_motion(life)
    assert len(kept) == 2
    for journal, sent in zip(kept, (first, killed), strict=True):
        assert journal is not None
        rows = find_in(sent, journal.action)
        assert len(rows) == len(journal.action) > 0.5 * len(sent)
        # the last command may have been sent, and not yet handed over when the kill came
        assert rows[-1] >= len(sent) - 3
    assert main(["recover", str(folder)]) == 0
    assert "recovered" in capsys.readouterr().out
    dataset = open_dataset(folder)
    assert [about.ended for about in dataset.episodes] == ["operator stop", ""]
    assert [about.instruction for about in dataset.episodes] == [TASK] * 2
    for episode, journal in enumerate(kept):
        assert journal is not None
        seconds = journal.captured[-1] - journal.captured[0]
        times = dataset.timestamps(episode)
        assert times is not None
        assert times[-1] == pytest.approx(seconds)
        np.testing.assert_allclose(dataset.action(episode)[-1], journal.action[-1])
        acted = dataset.vector(episode, "operator")[:, 0]
        (changes,) = np.nonzero(np.diff(acted))
        assert len(changes) == (2 if episode == 0 else 1)
        shares = acted.mean(), journal.operator.mean()
        assert shares[0] == pytest.approx(shares[1], abs=0.05)
    takeovers = open_demonstrations(folder, {"operator": "person"})
    assert len(takeovers.lengths) == 2
    assert len(open_demonstrations(folder, {"operator": "policy"}).lengths) == 3
    assert sum(takeovers.lengths) == sum(
        int(dataset.vector(episode, "operator").sum()) for episode in range(2)
    )
