"""What a training has come to, and the advice that follows from it."""

import numpy as np
import pytest

from act_policy.data.dataset import DemonstrationDataset
from act_policy.evaluation.open_loop.outcome import Course, advise, tell_error
from act_policy.evaluation.open_loop.score import HOLD_STILL, NEAREST, POLICY, OpenLoop
from tests.evaluation.open_loop.test_open_loop import write


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> DemonstrationDataset:
    rows = np.array([[0, 5], [1, 5], [2, 5]], np.float32)
    return write(tmp_path_factory.mktemp("demonstrations"), [rows], [rows])


def outcome(dataset: DemonstrationDataset, policy: float, still: float, nearest: float) -> OpenLoop:
    size = dataset.schema.action_size
    means = {POLICY: policy, HOLD_STILL: still, NEAREST: nearest}
    errors = {who: np.full((2, size), 3.0 * mean) for who, mean in means.items()}
    scale, counts = np.full(size, 3.0), np.array([5, 5])
    says = "1 demonstration held out of training"
    return OpenLoop(dataset.schema, dataset, [0], says, errors, counts, scale, {}, "others", [])


def test_the_error_is_told_beside_the_baselines(dataset: DemonstrationDataset) -> None:
    told = tell_error(outcome(dataset, 0.1, 0.5, 0.25))
    assert "off by 0.10 standard deviations" in told
    assert "(holding still 0.50, the nearest demonstration 0.25)" in told
    assert told.endswith("1 demonstration held out of training")


@pytest.mark.parametrize(
    ("errors", "course", "words"),
    [
        ((0.46, 0.5, 0.6), Course(0.1, 0.1, True, 30.0), "no better than holding still: look at"),
        ((0.6, 0.5, 0.6), Course(0.1, 0.1, True, 30.0), "holding still and the nearest"),
        ((0.1, 0.5, 0.6), Course(0.04, 0.1, True, 30.0), "record more demonstrations: .*2.5 times"),
        ((0.1, 0.5, 0.6), Course(0.1, 0.1, True, 30.0), r"act-policy train resume=RUN budget=60m"),
        ((0.1, 0.5, 0.6), Course(0.1, 0.1, False, 30.0), "try it; where it fails"),
    ],
)
def test_advice(
    dataset: DemonstrationDataset, errors: tuple[float, float, float], course: Course, words: str
) -> None:
    (line,) = advise(outcome(dataset, *errors), course, "RUN").splitlines()
    assert line.startswith("next: ")
    assert all(part in line for part in words.split(".*"))


def test_the_course_is_read_from_the_metrics() -> None:
    rows = [{"train_l1": 1.0 - i / 20, "minutes": i / 10} for i in range(20)]
    rows[9]["held_out_l1"], rows[19]["held_out_l1"] = 0.5, 0.4
    course = Course.of(rows)
    assert course.train_l1 == pytest.approx((0.1 + 0.05) / 2)
    assert (course.held_out_l1, course.still_falls) == (0.4, True)
    assert course.minutes == pytest.approx(1.9)
