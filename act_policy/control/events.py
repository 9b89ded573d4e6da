"""What happened and how often: one event when an intervention begins, one count for every tick."""

import json
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


class EventLog:
    """Every event, passed on as it happens; and the number of ticks of each kind.

    Args:
        tell: called with each event.
    """

    def __init__(self, tell: Callable[[Event], None] = lambda event: None):
        self.events: list[Event] = []
        self.counts: Counter[str] = Counter()
        self._tell = tell
        self._ongoing: dict[str, set[str]] = {}

    def add(self, time: float, kind: str, detail: str) -> None:
        """Something happened at this moment."""
        self.counts[kind] += 1
        event = Event(time, kind, detail)
        self.events.append(event)
        self._tell(event)

    def during(self, time: float, source: str, present: dict[str, str]) -> None:
        """All that a source finds in this tick, kind -> detail: an event for each new beginning."""
        ongoing = self._ongoing.get(source, set())
        for kind, detail in present.items():
            if kind in ongoing:
                self.counts[kind] += 1
            else:
                self.add(time, kind, detail)
        self._ongoing[source] = set(present)
