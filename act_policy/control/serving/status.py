"""Figures and events of a policy server for its status page, bounded in memory."""

import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from act_policy.types import Observation

LATENCIES_KEPT = 2000
EVENTS_KEPT = 30
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


class Snapshot(NamedTuple):
    """The status at one moment, safe to read in another thread.

    rate: requests per second over the last seconds; latencies: milliseconds, the oldest first.
    clients: who, connected since, requests.
    """

    started: float
    requests: int
    rate: float
    latencies: np.ndarray
    counters: dict[str, int]
    events: tuple[ServerEvent, ...]
    clients: tuple[tuple[str, float, int], ...]
    last: Exchange | None


@dataclass
class Client:
    """One connection; arm is "" unless it said which arm it moves."""

    address: str
    arm: str
    since: float = field(default_factory=time.time)
    requests: int = 0

    def __str__(self) -> str:
        return f"{self.address} (arm {self.arm})" if self.arm else self.address


class ServerStatus:
    """Counters and the latest values; written by the event loop alone."""

    def __init__(self) -> None:
        self.started = time.time()
        self.requests = 0
        self.counters: Counter[str] = Counter()
        self._answered: deque[Answered] = deque(maxlen=LATENCIES_KEPT)
        self.events: deque[ServerEvent] = deque(maxlen=EVENTS_KEPT)
        self.clients: list[Client] = []
        self.last: Exchange | None = None

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
        self._answered.append(Answered(time.monotonic(), seconds))
        self.last = Exchange(observation, chunk, time.time(), str(client))

    def event(self, kind: str, client: str, text: str) -> None:
        """Count an intervention or an error by its kind, and keep its text for a while."""
        self.counters[kind] += 1
        self.events.append(ServerEvent(time.time(), client, text[:500]))

    def snapshot(self) -> Snapshot:
        """Copy everything that the page shows."""
        since = time.monotonic() - RATE_SECONDS
        return Snapshot(
            self.started,
            self.requests,
            sum(each.at >= since for each in self._answered) / RATE_SECONDS,
            np.array([1e3 * each.seconds for each in self._answered]),
            dict(self.counters),
            tuple(self.events),
            tuple((str(client), client.since, client.requests) for client in self.clients),
            self.last,
        )
