"""The outcome of trials as a file like evaluation.json, which the same command continues.

Where several policies are compared, which one ran in which episode is written in base64 until the
trials are over, so that whoever judges does not read it by the way.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from act_policy.errors import UserError, writing
from act_policy.intervals import wilson_interval
from act_policy.system.atomic import atomic_file

RESULTS = "trials.json"
HIDDEN = "which_policy_in_base64"


@dataclass(frozen=True)
class TrialEpisode:
    """One episode that was judged.

    success: in the operator's judgement.
    seconds: from the first action of the policy to the end.
    ended_by: the time, the operator, or a fault in words.
    film: file name in films/; "" without one.
    state: number of the initial state, from which each policy ran, from 1; None where there is
        one policy.
    """

    episode: int
    success: bool
    seconds: float
    ended_by: str
    film: str = ""
    state: int | None = None


@dataclass
class TrialResults:
    """Everything that trials.json holds.

    subject: what is tried and how; trials of another subject are not continued.
    start_pose: joint -> where every episode begins.
    discarded: episodes that the operator repeated.
    played: which policy ran in each episode, by number from 0; empty where there is one policy.
    """

    subject: dict[str, Any]
    start_pose: dict[str, float] = field(default_factory=dict)
    discarded: int = 0
    episodes: list[TrialEpisode] = field(default_factory=list)
    played: list[int] = field(default_factory=list)

    @property
    def successes(self) -> int:
        """Number of successful episodes."""
        return sum(episode.success for episode in self.episodes)

    def add(self, episode: TrialEpisode, policy: int | None) -> None:
        """Take an episode that was judged; the policy's number where there are several."""
        self.episodes.append(episode)
        if policy is not None:
            self.played.append(policy)

    def drop_state(self, state: int) -> list[TrialEpisode]:
        """Discard the episodes from the last initial state; return them."""
        kept = [episode for episode in self.episodes if episode.state != state]
        dropped = self.episodes[len(kept) :]
        self.episodes, self.played = kept, self.played[: len(kept)]
        self.discarded += len(dropped)
        return dropped

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the rate and its 95% Wilson interval come first, as in evaluation.json."""
        n = len(self.episodes)
        hidden = {HIDDEN: _encode(self.played)} if self.played else {}
        return {
            "success_rate": self.successes / n if n else None,
            "interval": list(wilson_interval(self.successes, n)) if n else None,
            "episodes": [
                {name: value for name, value in asdict(episode).items() if value is not None}
                for episode in self.episodes
            ],
            "discarded": self.discarded,
            "start_pose": self.start_pose,
            **hidden,
            **self.subject,
        }

    def write(self, folder: Path, comparison: Mapping[str, Any] | None = None) -> None:
        """Write trials.json, so that it is always either the old one or complete.

        Args:
            folder: of the trials.
            comparison: what came out of a comparison that is over; each episode then names its
                policy.

        Raises:
            UserError: the disk is full, or the folder cannot be written.
        """
        plain = self.to_dict()
        if comparison is not None:
            names = [policy["name"] for policy in comparison["policies"]]
            for episode, policy in zip(plain["episodes"], self.played, strict=True):
                episode["policy"] = names[policy]
            plain = {**comparison, **plain}
        path = folder / RESULTS
        with writing(path), atomic_file(path) as file:
            file.write((json.dumps(plain, indent=2) + "\n").encode())


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
        for episode in plain["episodes"]:
            episode.pop("policy", None)
        episodes = [TrialEpisode(**episode) for episode in plain["episodes"]]
        pose = {str(name): float(value) for name, value in plain["start_pose"].items()}
        discarded = int(plain["discarded"])
        played = _decode(plain.get(HIDDEN, ""))
        if len(played) != sum(episode.state is not None for episode in episodes):
            raise ValueError(f"{HIDDEN} is not of these episodes")
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
    return TrialResults(dict(subject), pose, discarded, episodes, played)


def _encode(played: Sequence[int]) -> str:
    return base64.b64encode(json.dumps(played).encode()).decode()


def _decode(hidden: str) -> list[int]:
    return [int(policy) for policy in json.loads(base64.b64decode(hidden) or "[]")]
