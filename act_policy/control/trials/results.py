"""The outcome of trials as a file like evaluation.json, which the same command continues."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from act_policy.errors import UserError, writing
from act_policy.intervals import wilson_interval
from act_policy.system.atomic import atomic_file

RESULTS = "trials.json"


@dataclass(frozen=True)
class TrialEpisode:
    """One episode that was judged.

    success: in the operator's judgement.
    seconds: from the first action of the policy to the end.
    ended_by: the time, the operator, or a fault in words.
    film: file name in films/; "" without one.
    """

    episode: int
    success: bool
    seconds: float
    ended_by: str
    film: str = ""


@dataclass
class TrialResults:
    """Everything that trials.json holds.

    subject: what is tried and how; trials of another subject are not continued.
    start_pose: joint -> where every episode begins.
    discarded: episodes that the operator repeated.
    """

    subject: dict[str, Any]
    start_pose: dict[str, float] = field(default_factory=dict)
    discarded: int = 0
    episodes: list[TrialEpisode] = field(default_factory=list)

    @property
    def successes(self) -> int:
        """Number of successful episodes."""
        return sum(episode.success for episode in self.episodes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the rate and its 95% Wilson interval come first, as in evaluation.json."""
        n = len(self.episodes)
        return {
            "success_rate": self.successes / n if n else None,
            "interval": list(wilson_interval(self.successes, n)) if n else None,
            "episodes": [asdict(episode) for episode in self.episodes],
            "discarded": self.discarded,
            "start_pose": self.start_pose,
            **self.subject,
        }

    def write(self, folder: Path) -> None:
        """Write trials.json, so that it is always either the old one or complete.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
        """
        path = folder / RESULTS
        with writing(path), atomic_file(path) as file:
            file.write((json.dumps(self.to_dict(), indent=2) + "\n").encode())


def read_or_begin(folder: Path, subject: Mapping[str, Any]) -> TrialResults:
    """Read the trials that a folder holds, or begin new ones.

    Raises:
        UserError: the folder holds trials of another policy, robot or length, or a broken file.
    """
    path = folder / RESULTS
    if not path.exists():
        return TrialResults(dict(subject))
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        episodes = [TrialEpisode(**episode) for episode in plain["episodes"]]
        pose = {str(name): float(value) for name, value in plain["start_pose"].items()}
        discarded = int(plain["discarded"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path}: cannot be read as trials: {error!r}; choose another out"
        ) from None
    for name, value in subject.items():
        if plain.get(name) != value:
            raise UserError(
                f"{path}: its {name} is {plain.get(name)}, now it is {value}; choose another out "
                "for other trials"
            )
    return TrialResults(dict(subject), pose, discarded, episodes)
