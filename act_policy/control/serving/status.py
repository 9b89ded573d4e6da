"""Figures and events of a policy server for its status page, bounded in memory."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from act_policy.types import Observation

LATENCIES_KEPT = 2000
EVENTS_KEPT = 30
LONGEST_TEXT = 500
"""Characters of an event that are kept."""
RATE_SECONDS = 10.0


class ServerEvent(NamedTuple):
    """Something that a person should know of: when (seconds since 1970), who, what."""

    time: float
    client: str
    text: str


class Answered(NamedTuple):
    """One request: when it was answered (monotonic seconds), and how long it took in the server."""

    at: float
    seconds: float


class Exchange(NamedTuple):
    """The last observation and the chunk (k, a) that answered it."""

    observation: Observation[np.ndarray]
    chunk: np.ndarray
    time: float
    client: str


@dataclass
class Client:
    """One connection; arm is "" unless it said which arm it moves."""

    address: str
    arm: str
    since: float = field(default_factory=time.time)
    requests: int = 0

    def __str__(self) -> str:
        return f"{self.address} (arm {self.arm})" if self.arm else self.address


@dataclass
class ServerStatus:
    """Counters and the latest values; written by the event loop alone."""

    started: float = field(default_factory=time.time)
    requests: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    answered: deque[Answered] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))
    events: deque[ServerEvent] = field(default_factory=lambda: deque(maxlen=EVENTS_KEPT))
    clients: list[Client] = field(default_factory=list)
    last: Exchange | None = None

    @property
    def rate(self) -> float:
        """Requests per second over the last RATE_SECONDS."""
        since = time.monotonic() - RATE_SECONDS
        return sum(each.at >= since for each in self.answered) / RATE_SECONDS

    @property
    def latencies(self) -> np.ndarray:
        """Milliseconds, the oldest first."""
        return np.array([1e3 * each.seconds for each in self.answered])

    def answer(
        self,
        client: Client,
        observation: Observation[np.ndarray],
        chunk: np.ndarray,
        seconds: float,
    ) -> None:
        """Count one answered request and its seconds in the server."""
        client.requests += 1
        self.requests += 1
        self.answered.append(Answered(time.monotonic(), seconds))
        self.last = Exchange(observation, chunk, time.time(), str(client))

    def event(self, kind: str, client: str, text: str) -> None:
        """Count an intervention or an error by its kind, and keep its text for a while."""
        self.counters[kind] += 1
        if len(text) > LONGEST_TEXT:
            text = f"{text[: LONGEST_TEXT - 3]}..."
        self.events.append(ServerEvent(time.time(), client, text))

    def snapshot(self) -> "ServerStatus":
        """Copy what changes, for another thread to read."""
        return replace(
            self,
            counters=self.counters.copy(),
            answered=self.answered.copy(),
            events=self.events.copy(),
            clients=[replace(client) for client in self.clients],
        )
