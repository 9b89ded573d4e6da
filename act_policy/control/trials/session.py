"""Episodes one after the other: return to the start, reset the scene, run, judge.

    RESET ──enter──▶ RUN ──time, stop, fault, or judged at once──▶ JUDGE ──y, n, r, b──▶ RETURN
      ▲                                                                                 │
      └────────────────────────── at the start pose ◀───────────────────────────────────┘

The arm moves only through the loop: every motion begins with the soft start, and limits, stops and
faults count in each phase. After a stop or a fault on the way to the start, enter goes on.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path

import numpy as np

from act_policy.control.chunks.asynchronous import AsynchronousExecutor, Proposal
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.loop import ControlLoop
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.control.safety.supervisor import Mode
from act_policy.control.trials.film import FilmMaker
from act_policy.control.trials.results import TrialEpisode, TrialResults
from act_policy.control.trials.turns import Turns
from act_policy.types import Observation

SETTLE_SECONDS = 0.5
"""At the start pose, before the arm rests there."""

KEYS = "y: success, n: failure, r: discard and repeat"
STATE_KEY = "b: discard every run from this initial state, which cannot be set up again"


class Phase(Enum):
    """What the trials wait for."""

    RETURN = "returning to the start pose; after a stop, enter goes on"
    RESET = "reset the scene, then press enter"
    RUN = "the policy runs"
    JUDGE = "judge"


class TrialExecutor:
    """An Executor of the loop that proposes the start pose, or what the policy says.

    target: the start pose (a,), NaN where nothing measures it; None lets the policy propose.
    playing: number of the policy that proposes.

    Args:
        policies: one or more.
        hidden: words that would tell which policy runs; errors are shown without them.
    """

    def __init__(self, policies: Sequence[AsynchronousExecutor], hidden: Sequence[str] = ()):
        self._policies, self._hidden = policies, hidden
        self.max_age = max(policy.max_age for policy in policies)  # each has its own as well
        self.target: np.ndarray | None = None
        self.playing = 0
        self._last: np.ndarray | None = None  # action of a policy

    def reset(self) -> None:
        """Forget all chunks of the policies."""
        for policy in self._policies:
            policy.reset()

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Show the policy what the robot sees, while it runs."""
        if self.target is None:
            self._policies[self.playing].observe(observation, captured, now)

    def action(self, now: float) -> Proposal | None:
        """The action for this moment; raises PolicyError."""
        if self.target is not None:
            last = self.target if self._last is None else self._last
            return Proposal(np.where(np.isfinite(self.target), self.target, last), 0.0)
        try:
            proposal = self._policies[self.playing].action(now)
        except PolicyError as error:
            said = str(error)
            for word in self._hidden:
                said = said.replace(word, "(hidden)")
            raise PolicyError(said) from None
        if proposal is not None:
            self._last = proposal.action
        return proposal


class TrialInput(OperatorInput):
    """The operator's keys: y, n and r judge, everything else means what it means in a run.

    compares: whether b discards the runs of all policies from an initial state.
    """

    def __init__(self, stop_hook: Callable[[], bool] | None = None, compares: bool = False):
        super().__init__(stop_hook)
        self.phase = Phase.RESET
        self._compares = compares
        self._verdict = ""

    def key(self, character: str) -> None:
        """A key was pressed."""
        judging = self.phase in (Phase.RUN, Phase.JUDGE)
        discards = character == "b" and self._compares and (judging or self.phase is Phase.RESET)
        if discards or (character in ("y", "n", "r") and judging):
            self._verdict = character
            if self.phase is Phase.RUN:
                self.stop(f"key {character}")
        elif character == "p":  # episodes begin at the start pose and nowhere else
            self.stop("key p")
        elif character not in ("\r", "\n") or self.phase in (Phase.RESET, Phase.RETURN):
            super().key(character)

    def verdict(self) -> str:
        """The last judgement since the last call; "" without one."""
        verdict, self._verdict = self._verdict, ""
        return verdict


class TrialSession:
    """Drives the loop through the episodes; `after_tick` is called with the time of each tick.

    finished: all episodes were judged.

    Args:
        loop: whose executor is `executor`; it has not ticked yet.
        turns: whose turn it is.
        seconds: of an episode.
        folder: of trials.json.
        start: the start pose (a,).
        say: prints a line.
    """

    def __init__(
        self,
        loop: ControlLoop,
        executor: TrialExecutor,
        operator: TrialInput,
        results: TrialResults,
        film: FilmMaker,
        turns: Turns,
        seconds: float,
        folder: Path,
        start: np.ndarray,
        say: Callable[[str], None],
    ):
        self._loop, self._executor, self._operator = loop, executor, operator
        self._results, self._film = results, film
        self._turns, self._seconds, self._folder = turns, seconds, folder
        self._start, self._say = start, say
        self.phase = Phase.RETURN
        self._began: float | None = None  # the policy's first action, or the rest at the start
        self._moved = False  # since the phase began
        self._ran, self._ended_by, self._film_name = 0.0, "", ""
        self._enter(Phase.RETURN if results.episodes else Phase.RESET)

    @property
    def finished(self) -> bool:
        """Whether all episodes are judged."""
        return self._turns.finished

    def describe(self) -> tuple[str, str]:
        """The phase, and what the arm does."""
        keys = f"{KEYS}, {STATE_KEY}" if self._turns.state is not None else KEYS
        asked = f": {keys}" if self.phase is Phase.JUDGE else ""
        done = f"{self._turns.describe()}: {self.phase.value}{asked}"
        supervisor = self._loop.supervisor
        return done, f"{supervisor.mode.value}; {supervisor.reason}".rstrip("; ")

    def after_tick(self, now: float) -> None:
        """Look at what the tick did, and go on to the next phase when it is time."""
        mode = self._loop.supervisor.mode
        self._moved |= self._loop.supervisor.moving
        if self.phase is Phase.RETURN:
            self._watch_return(now, mode)
        elif self.phase is Phase.RESET:
            if self._moved:
                self._enter(Phase.RUN)
            elif self._operator.verdict():
                self._discard_state()
                self._enter(Phase.RESET)
        elif self.phase is Phase.RUN:
            self._watch_run(now, mode)
        elif verdict := self._operator.verdict():
            self._judge(verdict)

    def _watch_return(self, now: float, mode: Mode) -> None:
        if mode is not Mode.RUNNING:
            self._began = None
        elif self._began is None:
            self._began = now
        elif now - self._began >= SETTLE_SECONDS:
            self._rest(now, "the start pose is reached")
            self._enter(Phase.RESET)

    def _watch_run(self, now: float, mode: Mode) -> None:
        if mode is Mode.RUNNING:
            if self._began is None:
                self._began = now
                self._film.begin(f"episode_{self._number:03d}.webp")
            self._ran = now - self._began
            if self._ran >= self._seconds:
                self._ended_by = "the time"
                self._rest(now, "the time of the episode is over")
        elif not self._loop.supervisor.moving:
            self._ended_by = self._ended_by or self._loop.supervisor.reason
            self._enter(Phase.JUDGE)

    def _rest(self, now: float, reason: str) -> None:
        """Hold from now on, where the arm is."""
        self._loop.supervisor.fault(now, "trial", reason, parks=False)

    def _judge(self, verdict: str) -> None:
        name = self._film_name
        if verdict in ("r", "b"):
            self._results.discarded += 1
            self._film.drop(name)
            if verdict == "r":
                self._say("discarded; the episode is repeated")
            else:
                self._discard_state()
        else:
            self._film.keep(name)
            episode = TrialEpisode(
                self._number, verdict == "y", round(self._ran, 2), self._ended_by, name,
                self._turns.state,
            )  # fmt: skip
            self._turns.keep(episode)
            self._say(
                f"episode {episode.episode}: {'success' if episode.success else 'failure'}; "
                f"{self._turns.describe_standing()}"
            )
        self._results.write(self._folder)
        if self.finished:
            self._operator.ended = "the last episode"
        else:
            self._enter(Phase.RETURN)

    def _discard_state(self) -> None:
        """Discard what was judged from the present initial state."""
        for episode in self._turns.drop_state():
            self._film.drop(episode.film)
        self._results.write(self._folder)
        self._say("discarded; all run again from another initial state")

    def _enter(self, phase: Phase) -> None:
        if phase in (Phase.RETURN, Phase.RESET):
            self._turns.choose()
            self._executor.playing = self._turns.policy
        self.phase = self._operator.phase = phase
        self._moved, self._began = False, None
        self._executor.target = self._start if phase is Phase.RETURN else None
        if phase is Phase.RETURN:
            self._operator.key("\n")  # through the same doors as a person's enter
        elif phase is Phase.RUN:
            self._ran, self._ended_by = 0.0, ""
            self._operator.verdict()
        elif phase is Phase.JUDGE:
            self._film_name = self._film.end()
        self._say(self.describe()[0])

    @property
    def _number(self) -> int:
        """Number of the present episode, from 1."""
        return len(self._results.episodes) + 1
