"""An event for every beginning, a count for every tick."""

import json

from act_policy.control.events import Event, EventLog


def test_a_lasting_intervention_is_one_event_and_many_counts() -> None:
    told: list[Event] = []
    log = EventLog(told.append)
    for tick in range(20):
        flickering = {"speed limit: elbow": f"{tick}"} if tick % 2 else {}
        log.during(tick * 0.1, flickering)
    assert told == [Event(0.1, "speed limit: elbow", "1")]
    assert log.counts["speed limit: elbow"] == 10
    log.during(9.0, {"speed limit: elbow": "again"})
    assert [event.detail for event in told] == ["1", "again"]
    assert json.loads(told[0].to_json()) == told[0]._asdict()
