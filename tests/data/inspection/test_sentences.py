"""One sentence per kind of finding, with numbers, names and units in place."""

import pytest

from act_policy.data.inspection.finding import Finding, Kind, Verdict
from act_policy.data.inspection.sentences import advice, sentence
from act_policy.errors import UserError

NAMES = ("a", "b", "c")
BROKEN = UserError("x.hdf5: cannot be read")
SENTENCES = {
    Kind.NO_CAMERA: ("", {"reasons": "front: gone"}, {}, "front: gone"),
    Kind.BROKEN_FILE: ("", {"error": BROKEN}, {}, "x.hdf5: cannot be read"),
    Kind.OTHER_NAMES: ("", {"error": BROKEN}, {}, "x.hdf5: cannot be read"),
    Kind.LONG_LAG: (
        "",
        {"lags": {"j0": (20, 0.4), "j1": (15, 0.3)}},
        {},
        "the state follows its action late: j0 after 0.4 s (20 steps); j1 after 0.3 s (15 steps)",
    ),
    Kind.UNLIKE_FILE: (
        "x.hdf5",
        {"differences": {"rate": (20, 10), "cameras": ("top", "none")}, "alike": 2, "count": 3},
        {},
        "x.hdf5: differs from 2 of 3 episodes: rate: 20 here, 10 there; "
        "cameras: top here, none there",
    ),
    Kind.READER_NOTE: ("", {"note": "one episode is left out"}, {}, "one episode is left out"),
    Kind.NOT_FINITE: (
        "action",
        {},
        {1: {"count": 2, "dimension": "j2", "step": 7}},
        "action is not a finite number in 1 of 3 episodes (b: 2 values, first j2 at step 7)",
    ),
    Kind.UNWRITTEN: (
        "",
        {},
        {1: {"step": 50, "length": 60}},
        "state and action are zero up to the end in 1 of 3 episodes (b: from step 50 on, of 60)",
    ),
    Kind.FAILED: ("", {}, {0: {}, 2: {}}, "marked as failed: 2 of 3 episodes (a; c)"),
    Kind.INSTRUCTIONS: (
        "",
        {"count": 2, "episodes_of": {"open it": 2, "close it": 1}, "first": "open it"},
        {},
        "2 in episodes that one policy learns: 'open it' (2); 'close it' (1)",
    ),
    Kind.CONTRADICTED: (
        "",
        {"dimensions": ["j0 (rad)", "j1 (rad)"], "declared": "position", "shown": "velocity"},
        {},
        "by name and unit a position, by the numbers a velocity: j0 (rad); j1 (rad)",
    ),
    Kind.MOVEMENTS: (
        "",
        {"dimensions": ["j0", "j1"], "shown": "displacement"},
        {},
        "the state changes by the action at every step: j0; j1",
    ),
    Kind.INVERTED: (
        "",
        {"dimensions": ["j0", "j1"]},
        {},
        "the state falls where the action rises: j0; j1",
    ),
    Kind.EXCHANGED: (
        "",
        {"followed_by": {"j0": "j1", "j1": "j0"}},
        {},
        "followed by another than their own: action j0 by state j1, j1 by state j0",
    ),
    Kind.SCALE: (
        "j0",
        {"scale": 57.1, "degrees": True},
        {},
        "action j0 is 57.1 times the state, as degrees and radians are",
    ),
    Kind.ACTION_IS_STATE: (
        "",
        {"dimensions": ["j0", "j1"]},
        {},
        "action equals the current state in j0, j1",
    ),
    Kind.OFFSET: (
        "elbow",
        {"offset": 0.2967, "deviation": 0.01, "unit": "rad"},
        {},
        "action elbow is off its later state by 0.297 rad (17.0 degrees) throughout "
        "(deviation 0.01 rad)",
    ),
    Kind.CONSTANT: (
        "",
        {"values": {"state j0": 0.3, "action j1": 1.0}},
        {},
        "the same at every step: state j0 (0.3), action j1 (1)",
    ),
    Kind.NEARLY_CONSTANT: (
        "",
        {"floor": 0.01, "deviations": {"state j0": (1e-4, "m"), "action g": (2e-4, "0..1")}},
        {},
        "their deviation is below the normaliser's floor of 0.01: "
        "state j0 (0.0001 m), action g (0.0002)",
    ),
    Kind.RATE: (
        "",
        {"stated": 10.0},
        {0: {"measured": 5.0}},
        "the dataset says 10 steps per second, its timestamps say otherwise in "
        "1 of 3 episodes (a: 5)",
    ),
    Kind.GAPS: (
        "",
        {"periods": 1.5},
        {
            0: {"count": 1, "seconds": 0.4, "step": 19},
            1: {"count": 2, "seconds": 0.5, "step": 3},
        },
        "steps that took longer than 1.5 periods in 2 of 3 episodes "
        "(a: 0.40 s after step 19; b: 2 gaps, 0.50 s after step 3 and later)",
    ),
    Kind.JUMPS: (
        "state",
        {},
        {
            0: {"dimension": "j0", "size": 1.43, "step": 29, "whole_turn": False},
            1: {"dimension": "j1", "size": 6.28, "step": 5, "whole_turn": True},
        },
        "state jumps within one step in 2 of 3 episodes "
        "(a: j0 by 1.43 after step 29; b: j1 by 6.28 after step 5, a whole turn)",
    ),
    Kind.IDLE: (
        "",
        {},
        {1: {"seconds": 2.2, "step": 20, "steps": 22, "length": 60}},
        "nothing moves for a long time in 1 of 3 episodes "
        "(b: 2.2 s from step 20 on, 22 of 60 steps)",
    ),
    Kind.DUPLICATES: (
        "",
        {},
        {2: {"same_as": 0}},
        "states and actions are those of another episode in 1 of 3 episodes (c: the same as a)",
    ),
    Kind.ENDS_EARLY: (
        "",
        {},
        {1: {"length": 29, "median": 60.0}},
        "far shorter than the others: 1 of 3 episodes (b: 29 steps, half of them have 60 or more)",
    ),
    Kind.SHORT: ("", {"rate": 10.0}, {1: {"seconds": 0.9}}, "1 of 3 episodes (b: 0.9 s)"),
    Kind.LONG_CHUNK: (
        "",
        {"chunk_length": 30, "padded": 0.256},
        {1: {"length": 40}},
        "chunk_length 30 is more than half of 1 of 3 episodes (b: 40 steps); "
        "26% of all targets are padding",
    ),
    Kind.NUMBERS_LEFT_OUT: (
        "",
        {"missing": list(range(1, 13)), "lowest": 0, "highest": 13},
        {},
        "no episode has number 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... (12 between 0 and 13)",
    ),
    Kind.MISPLACED_IMAGES: ("top", {"error": BROKEN}, {0: {}}, "x.hdf5: cannot be read"),
    Kind.UNDECODABLE: (
        "top",
        {"error": UserError("step 0 cannot be decoded."), "count": 3},
        {0: {"steps": [0, 1, 2]}},
        "step 0 cannot be decoded. And 2 more of this camera in this episode.",
    ),
    Kind.BLACK_CAMERA: (
        "top",
        {},
        {1: {}},
        "every image of camera top that was looked at is black in 1 of 3 episodes (b)",
    ),
    Kind.EMPTY_CAMERA: (
        "top",
        {},
        {1: {}},
        "every image of camera top that was looked at is of one colour in 1 of 3 episodes (b)",
    ),
    Kind.FROZEN_CAMERA: (
        "top",
        {},
        {1: {"first": 25, "last": 59}},
        "camera top shows the same although the robot moves in 1 of 3 episodes (b: steps 25 to 59)",
    ),
    Kind.SAME_IMAGES: (
        "top",
        {"other": "wrist"},
        {0: {}, 1: {}},
        "cameras top and wrist show the same images in 2 of 3 episodes (a; b)",
    ),
}


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_has_a_sentence_and_advice(kind):
    subject, detail, episodes, expected = SENTENCES[kind]
    finding = Finding(Verdict.ERROR, kind, subject, detail, episodes)
    assert sentence(finding, NAMES) == expected
    assert advice(finding).endswith((".", "?"))


def test_an_error_of_all_files_together_stands_for_itself():
    finding = Finding(Verdict.ERROR, Kind.UNLIKE_FILE, detail={"error": BROKEN})
    assert sentence(finding, ()) == "x.hdf5: cannot be read"


def test_advice_depends_on_what_training_will_do():
    for kind in (Kind.BROKEN_FILE, Kind.UNDECODABLE):
        assert "=skip" in advice(Finding(Verdict.ERROR, kind))
        assert "(un" in advice(Finding(Verdict.WARNING, kind))
    assert "10 steps per second" in advice(Finding(Verdict.NOTE, Kind.SHORT, "", {"rate": 10.0}))


def test_long_lists_are_cut():
    finding = Finding(Verdict.WARNING, Kind.FAILED, episodes={e: {} for e in range(8)})
    assert sentence(finding, list("abcdefgh")).endswith("(a; b; c; d; e; and 3 more)")
