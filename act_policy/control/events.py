"""Log events and count them: one event when an intervention begins, one count for every tick."""

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple


class Event(NamedTuple):
    """time in seconds of the loop's clock; kind is what is counted, detail is for a person."""

    time: float
    kind: str
    detail: str

    def to_json(self) -> str:
        """One line of a log file."""
        return json.dumps(self._asdict())


SAME_SECONDS = 1.0
"""An intervention that comes back within this time is the same event, not another."""


class EventLog:
    """Every event, passed on as it happens; and the number of ticks of each kind.

    Args:
        tell: called with each event. Its exceptions are counted and go no further: a terminal that
            is gone, or a full disk, must not keep a hold from the arm.
    """

    def __init__(self, tell: Callable[[Event], None] = lambda event: None):
        self.events: list[Event] = []
        self.counts: Counter[str] = Counter()
        self._tell = tell
        self._seen: dict[str, float] = {}  # when each kind of intervention last went on

    def add(self, time: float, kind: str, detail: str) -> None:
        """Add an event of this moment."""
        self.counts[kind] += 1
        event = Event(time, kind, detail)
        self.events.append(event)
        try:
            self._tell(event)
        except Exception:
            self.counts["event not told"] += 1

    def during(self, time: float, present: dict[str, str]) -> None:
        """Count the interventions of this tick, kind -> detail; add an event for each new one."""
        for kind, detail in present.items():
            if time - self._seen.get(kind, -math.inf) <= SAME_SECONDS:
                self.counts[kind] += 1
            else:
                self.add(time, kind, detail)
            self._seen[kind] = time
