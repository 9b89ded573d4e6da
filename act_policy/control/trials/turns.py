"""Which policy runs next in trials, and when they are over.

Several policies are compared blindly: each runs from the same marked initial states, in random
order, and nobody who judges knows which one it is. A comparison ends as soon as it is decided.
"""

import random
from collections.abc import Sequence
from typing import Any

from act_policy.control.trials.results import TrialEpisode, TrialResults
from act_policy.intervals import wilson_interval
from act_policy.judging.schedule import Schedule, Turn
from act_policy.judging.several import assign_letters, different_pairs
from act_policy.report.pieces import format_count
from act_policy.report.verdicts import list_verdicts


class Turns:
    """Turns of one policy, in as many episodes as are wanted.

    state: number of the initial state, from 1; None where only one policy runs.
    policy: number of the one that runs, from 0.

    Args:
        results: so far.
        episodes: to judge in all.
    """

    state: int | None = None
    policy: int = 0

    def __init__(self, results: TrialResults, episodes: int):
        self._results, self._episodes = results, episodes

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be run."""
        return len(self._results.episodes) >= self._episodes

    def choose(self) -> None:
        """Choose who runs next; the trials are not finished."""

    def keep(self, episode: TrialEpisode) -> None:
        """Take an episode that was judged."""
        self._results.add(episode, None)

    def drop_state(self) -> list[TrialEpisode]:
        """Discard nothing: there are no other runs from this initial state."""
        return []

    def describe(self) -> str:
        """Say which episode is the next, without giving away who runs."""
        return f"episode {len(self._results.episodes) + 1} of {self._episodes}"

    def describe_standing(self) -> str:
        """Say what came out so far."""
        return f"{self._results.successes} of {len(self._results.episodes)}"


class BlindTurns(Turns):
    """Turns of several policies from the same initial states.

    names, margin, confidence: as given.

    Args:
        results: so far.
        names: of the policies.
        states: most initial states.
        margin: a difference of success rates that does not matter.
        confidence: of all verdicts together.
    """

    def __init__(
        self,
        results: TrialResults,
        names: Sequence[str],
        states: int,
        margin: float,
        confidence: float,
    ):
        super().__init__(results, states)
        self.names, self.margin, self.confidence = names, margin, confidence
        self._random = random.SystemRandom()

    @property
    def finished(self) -> bool:
        """Whether every pair is decided, or all have run from the last initial state."""
        return not self._due()

    def choose(self) -> None:
        """Choose by chance among those that have not run from the present initial state."""
        turn = self._random.choice(self._due())
        self.state, self.policy = turn.state + 1, turn.policy

    def keep(self, episode: TrialEpisode) -> None:
        """Take an episode that was judged."""
        self._results.add(episode, self.policy)

    def describe(self) -> str:
        """Say which initial state it is, and how many have run from it."""
        ran = sum(episode.state == self.state for episode in self._results.episodes)
        where = "a new one, mark it" if ran == 0 else "as it is marked"
        return f"initial state {self.state} of at most {self._episodes} ({where}), run {ran + 1}"

    def describe_standing(self) -> str:
        """Say after the last run from an initial state whether it is decided, but not how."""
        due = self._due()
        if due and due[0].state + 1 == self.state:
            return "once more from the same initial state"
        decided = "decided" if self.schedule().is_decided else "cannot tell yet"
        return f"after {format_count(self.state or 0, 'initial state')}: {decided}"

    def drop_state(self) -> list[TrialEpisode]:
        """Discard what was judged from the present initial state, which cannot be set up again."""
        return [] if self.state is None else self._results.drop_state(self.state)

    def schedule(self) -> Schedule:
        """Judge the episodes so far."""
        schedule = Schedule(len(self.names), self._episodes, self.margin, self.confidence)
        for episode, policy in zip(self._results.episodes, self._results.played, strict=True):
            if episode.state is None:
                raise ValueError(f"episode {episode.episode} of a comparison has no state")
            schedule.record(Turn(policy, episode.state - 1), episode.success)
        return schedule

    def compare(self) -> dict[str, Any]:
        """Return what came out, with names, as comparison.json has it."""
        schedule = self.schedule()
        won: list[list[bool]] = [[] for _ in self.names]
        for episode, policy in zip(self._results.episodes, self._results.played, strict=True):
            won[policy].append(episode.success)
        rates = [sum(successes) / max(1, len(successes)) for successes in won]
        letters = assign_letters(rates, different_pairs(schedule.judged))
        policies = [
            {
                "name": name,
                "letters": letters[i],
                "success_rate": rates[i],
                "interval": list(wilson_interval(sum(won[i]), len(won[i]))),
                "successes": sum(won[i]),
                "episodes": len(won[i]),
            }
            for i, name in enumerate(self.names)
        ]
        return {
            "mode": "trials",
            "decided": schedule.is_decided,
            "verdicts": list_verdicts(self.names, schedule, self.margin),
            "policies": policies,
            "confidence_of_each_pair": schedule.of_each,
        }

    def _due(self) -> list[Turn]:
        """List who is due from the earliest initial state that is not complete."""
        schedule = self.schedule()
        due: list[Turn] = []
        while (turn := schedule.next_turn()) and (not due or turn.state == due[0].state):
            due.append(turn)
        return due
