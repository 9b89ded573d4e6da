"""A policy had the same outcomes in gym-aloha's own environment as in ours: record.py."""

import json
from pathlib import Path

import pytest

RECORDS = sorted(Path(__file__).parent.glob("gym_aloha_*.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_every_seed_ended_alike(path: Path) -> None:
    record = json.loads(path.read_text())
    assert len(record["here"]) == len(record["there"]) >= 20
    assert [success for success, _ in record["here"]] == [success for success, _ in record["there"]]
    assert sum(success for success, _ in record["here"]) > 0
