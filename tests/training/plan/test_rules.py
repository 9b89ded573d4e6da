"""The plans of ten kinds of data on three kinds of machine, from given facts."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from act_policy.data.frames.missing import Missing
from act_policy.errors import UserError
from act_policy.training.plan.costs import parse_time
from act_policy.training.plan.facts import ByHand, DataFacts, MachineFacts
from act_policy.training.plan.plan import Plan, show_plan
from act_policy.training.plan.rules import make_plan
from act_policy.types import Camera

GB = 10**9


def cameras(count: int, height: int, width: int) -> tuple[Camera, ...]:
    return tuple(Camera(f"camera{i}", height, width) for i in range(count))


VGA = (480, 640)
DATA = {
    "aloha": DataFacts(50.0, (400,) * 50, cameras(4, *VGA), 14, 14),
    "cube": DataFacts(50.0, (237,) * 50, cameras(1, 96, 128), 14, 14, read_raw=True),
    "three views": DataFacts(50.0, (237,) * 50, cameras(3, *VGA), 14, 14),
    "dial": DataFacts(80.0, (71,) * 200, cameras(1, 84, 84), 4, 4, "movement", read_raw=True),
    "so101": DataFacts(30.0, (450,) * 50, cameras(2, *VGA), 6, 6),
    "five": DataFacts(30.0, (300,) * 5, cameras(2, *VGA), 6, 6),
    "many short": DataFacts(30.0, (100,) * 2000, cameras(1, *VGA), 6, 6),
    "1080p": DataFacts(30.0, (600,) * 50, cameras(1, 1080, 1920), 6, 6, decoding_seconds=0.012),
    "four slow": DataFacts(10.0, (200,) * 50, cameras(4, *VGA), 7, 7),
    "long": DataFacts(50.0, (3000,) * 400, cameras(3, *VGA), 14, 14),
}
CACHE = Path("data/.cache")
LAPTOP = MachineFacts(2, 8 * GB, 100 * GB, CACHE)
DESKTOP = MachineFacts(16, 32 * GB, 500 * GB, CACHE)
GPU = replace(DESKTOP, free_memory=20 * GB, gpu="RTX 4090", imagenet=Path("home/resnet18.pth"))
MACHINES = {"laptop": LAPTOP, "desktop": DESKTOP, "gpu": GPU}


class Expected(NamedTuple):
    images: str
    chunk: int
    steps: int
    decoding: str  # first word


EXPECTED = {
    ("aloha", "laptop"): Expected("96x128", 60, 1960, "once,"),
    ("cube", "laptop"): Expected("96x128", 60, 8230, "not"),
    ("three views", "laptop"): Expected("96x128", 60, 2690, "once,"),
    ("dial", "laptop"): Expected("84x84", 35, 14340, "not"),
    ("so101", "laptop"): Expected("96x128", 36, 4010, "once,"),
    ("five", "laptop"): Expected("96x128", 36, 1870, "once,"),
    ("many short", "laptop"): Expected("96x128", 36, 7320, "once,"),
    ("1080p", "laptop"): Expected("80x144", 36, 8340, "once,"),
    ("four slow", "laptop"): Expected("96x128", 12, 2010, "once,"),
    ("long", "laptop"): Expected("96x128", 60, 2070, "while"),
    ("aloha", "desktop"): Expected("120x160", 60, 10480, "once,"),
    ("cube", "desktop"): Expected("96x128", 60, 17770, "not"),
    ("three views", "desktop"): Expected("120x160", 60, 14020, "once,"),
    ("dial", "desktop"): Expected("84x84", 35, 20000, "not"),
    ("so101", "desktop"): Expected("120x160", 36, 20000, "once,"),
    ("five", "desktop"): Expected("96x128", 36, 1870, "once,"),
    ("many short", "desktop"): Expected("120x160", 36, 20000, "once,"),
    ("1080p", "desktop"): Expected("104x184", 36, 20000, "once,"),
    ("four slow", "desktop"): Expected("120x160", 12, 10510, "once,"),
    ("long", "desktop"): Expected("120x160", 60, 11630, "while"),
    ("aloha", "gpu"): Expected("240x320", 60, 20000, "once,"),
    ("cube", "gpu"): Expected("96x128", 60, 17770, "not"),
    ("three views", "gpu"): Expected("240x320", 60, 17770, "once,"),
    ("dial", "gpu"): Expected("84x84", 35, 20000, "not"),
    ("so101", "gpu"): Expected("240x320", 36, 20000, "once,"),
    ("five", "gpu"): Expected("96x128", 36, 1870, "once,"),
    ("many short", "gpu"): Expected("240x320", 36, 20000, "once,"),
    ("1080p", "gpu"): Expected("208x368", 36, 20000, "once,"),
    ("four slow", "gpu"): Expected("240x320", 12, 15000, "once,"),
    ("long", "gpu"): Expected("240x320", 60, 20000, "while"),
}


@pytest.mark.parametrize(("data", "machine"), EXPECTED)
def test_plans(data: str, machine: str) -> None:
    plan = make_plan(DATA[data], MACHINES[machine])
    found = Expected(
        plan["images"].shown, plan["chunk"].value, plan.steps, plan["decoding"].shown.split()[0]
    )
    assert found == EXPECTED[data, machine]
    check_sense(plan, DATA[data], MACHINES[machine])


def check_sense(plan: Plan, data: DataFacts, machine: MachineFacts) -> None:
    """Check what holds for every plan: it fits into the time, the disk and the data."""
    settings = plan.settings
    if plan.budget_seconds is not None:
        assert plan.cache_seconds + plan.training_seconds <= plan.budget_seconds
        assert plan.cache_seconds <= plan.budget_seconds / 4
    assert plan.cache_bytes <= min(20 * GB, machine.free_disk / 10)
    count = len(data.lengths)
    held_out = round(count * settings["data.held_out_fraction"])
    assert 1 <= held_out < count
    assert settings["optim.warmup_steps"] < plan.steps
    assert settings["log_every"] <= settings["validate_every"] <= plan.steps
    assert 1 <= settings["execution.execute_steps"] <= plan["chunk"].value
    assert settings["model"] == ("act_medium" if machine.gpu else "act_small")
    assert all(choice.reason and choice.change and choice.shown for choice in plan.choices)


def test_every_line_shows_choice_reason_and_setting() -> None:
    data, plan = DATA["three views"], make_plan(DATA["three views"], LAPTOP)
    text = show_plan(plan, data, LAPTOP, "data")
    for choice in plan.choices:
        (line,) = (part for part in text.splitlines() if part.startswith(f"  {choice.name}  "))
        assert choice.shown in line
        assert choice.reason in line
        assert choice.change in line
    assert "1.3 GB in data/.cache" in text
    assert "about 53 min of training after 72 s of decoding; the budget is 1 h" in text


def test_the_readme_shows_a_plan() -> None:
    data = replace(DATA["so101"], cameras=(Camera("front", *VGA), Camera("wrist", *VGA)), rate=30.0)
    plan = show_plan(make_plan(data, LAPTOP), data, LAPTOP, "FOLDER")
    readme = (Path(__file__).parents[3] / "README.md").read_text()
    assert f"```\n{plan}\n```" in readme


def test_steps_and_images_follow_the_measured_time_of_a_step() -> None:
    data = DATA["three views"]
    first = make_plan(data, LAPTOP)
    slow = make_plan(data, LAPTOP, measured={first.workload: 10 * first.step_seconds})
    assert slow.workload != first.workload  # smaller images, since there is no time for these
    assert slow["images"].shown == "72x96"
    measured = {first.workload: 10 * first.step_seconds, slow.workload: 2.0}
    final = make_plan(data, LAPTOP, measured=measured)
    assert final.workload == slow.workload
    assert final.steps == int((3600 - final.cache_seconds) * 0.9 / 2.0) // 10 * 10
    fast = make_plan(data, LAPTOP, measured={first.workload: first.step_seconds / 10})
    assert fast["images"].shown == "120x160"


@pytest.mark.parametrize(
    ("key", "value", "choice"),
    [
        ("model.chunk_length", 20, "chunk"),
        ("data.batch_size", 8, "batch"),
        ("data.held_out_fraction", 0.2, "held out"),
        ("data.held_out_episodes", [3], "held out"),
        ("data.cache", None, "decoding"),
        ("data.cache", "elsewhere", "decoding"),
        ("max_steps", 77, "steps"),
        ("optim.learning_rate", 1e-3, "learning rate"),
        ("execution.execute_steps", 5, "execution"),
        ("execution.ensemble_coefficient", 0.01, "execution"),
        ("validate_every", 11, "held-out loss"),
        ("budget", "10m", "budget"),
        ("max_minutes", 10, "budget"),
        ("model", {"width": 64, "chunk_length": 10}, "network"),
        ("data.select.resize", [48, 64], "images"),
        ("trainer", {"accelerator": "cpu"}, "device"),
    ],
)
def test_what_the_user_sets_is_kept(key: str, value: object, choice: str) -> None:
    plan = make_plan(DATA["aloha"], LAPTOP, ByHand({key: value}))
    assert key not in plan.settings
    assert plan[choice].reason == "set by you"
    if key == "model":
        assert plan["chunk"].value == 10
        assert not any(name.startswith("model") for name in plan.settings)
    if choice == "budget":
        assert plan.cache_seconds + plan.training_seconds <= 600


@pytest.mark.parametrize(
    ("gain", "by_hand", "shown", "precision"),
    [
        (None, {}, "2 cores, float32", None),
        (1.1, {}, "2 cores, float32", None),
        (1.6, {}, "2 cores, bfloat16", "bf16-mixed"),
        (
            1.6,
            {"trainer": {"devices": "auto", "precision": "auto"}},
            "2 cores, bfloat16",
            "bf16-mixed",
        ),
        (1.6, {"trainer.precision": "32-true"}, "2 cores, float32", None),
        (None, {"trainer.precision": "bf16-mixed"}, "2 cores, bfloat16", None),
    ],
)
def test_a_cpu_trains_in_bfloat16_where_a_measured_step_is_faster(
    gain: float | None, by_hand: dict[str, object], shown: str, precision: str | None
) -> None:
    plan = make_plan(DATA["cube"], replace(LAPTOP, bfloat16_gain=gain), ByHand(by_hand))
    assert plan["device"].shown == shown
    assert plan.settings.get("trainer.precision") == precision
    if gain is not None and not by_hand:
        assert f"a step in bfloat16 is {gain:.2f} times as fast" in plan["device"].reason


def test_the_device_is_what_is_trained_on() -> None:
    one = make_plan(DATA["long"], replace(LAPTOP, cores=1, bfloat16_gain=0.5))
    assert one["device"].shown == "1 core, float32"
    assert one["device"].reason == "a step in bfloat16 takes 2.00 times as long as in float32"
    assert one["decoding"].shown == "while training, 1 worker"
    assert one["decoding"].change.startswith("data.cache=auto")
    few = make_plan(DATA["cube"], DESKTOP, ByHand({"trainer.threads": 4}))
    assert (few["device"].shown, few["device"].reason) == ("4 threads, float32", "set by you")
    exact = make_plan(DATA["cube"], GPU, ByHand({"trainer.precision": "32-true"}))
    assert exact["device"].shown == "RTX 4090, float32"


def test_a_network_that_the_user_chose_by_name_learns_at_its_own_rate() -> None:
    by_hand = {"model": {"width": 128, "chunk_length": 32}, "network": "act_small"}
    plan = make_plan(DATA["cube"], LAPTOP, ByHand(by_hand))
    assert (plan["network"].shown, plan["network"].reason) == ("act_small", "set by you")
    assert plan["learning rate"].value == 5e-4
    other = make_plan(DATA["cube"], LAPTOP, ByHand(by_hand | {"network": "act_tiny"}))
    assert other["learning rate"].value == 1e-4


def test_a_short_budget_means_small_images() -> None:
    plan = make_plan(DATA["aloha"], LAPTOP, ByHand({"budget": "10m"}))
    assert plan["images"].shown == "72x96"
    assert plan.cache_seconds + plan.training_seconds <= 600


def test_little_memory_means_small_batches_and_a_lower_rate() -> None:
    plan = make_plan(DATA["aloha"], replace(LAPTOP, free_memory=GB // 4))
    assert plan["batch"].value == 8
    assert plan["learning rate"].value == 2e-4
    assert "free memory" in plan["batch"].reason


def test_little_space_on_the_disk_means_jpeg() -> None:
    plan = make_plan(DATA["so101"], replace(LAPTOP, free_disk=10 * GB))
    assert plan.settings["data.cache_format"] == "jpeg"
    assert plan.settings["data.cache"] == "auto"
    assert "off by 1 of 255" in plan["decoding"].reason
    assert plan["decoding"].change == "data.cache_format=raw"
    raw = make_plan(DATA["so101"], LAPTOP)
    assert raw.settings["data.cache_format"] == "raw"
    assert plan.cache_bytes < raw.cache_bytes / 2
    by_hand = ByHand({"data.cache_format": "raw"})
    plan = make_plan(DATA["so101"], replace(LAPTOP, free_disk=10 * GB), by_hand)
    assert plan.cache_bytes == raw.cache_bytes
    assert "data.cache_format" not in plan.settings


def test_a_nearly_full_disk_means_decoding_while_training() -> None:
    plan = make_plan(DATA["so101"], replace(LAPTOP, free_disk=5 * GB))
    assert plan.settings["data.cache"] is None
    assert plan.settings["data.workers"] == 2
    cached = make_plan(DATA["so101"], LAPTOP)
    assert plan.step_seconds > cached.step_seconds
    assert plan.steps < cached.steps


def test_what_is_decoded_already_takes_neither_time_nor_disk() -> None:
    data, cache = DATA["so101"], (((96, 128),) * 2, "raw")
    first = make_plan(data, LAPTOP)
    half = make_plan(data, replace(LAPTOP, caches={cache: Missing(0.4, 0.0)}))
    assert half.cache_seconds == pytest.approx(0.4 * first.cache_seconds)
    assert half.cache_bytes == 0  # the whole file has its place
    assert half["decoding"].shown == "once, 1.7 GB"
    assert half["decoding"].reason == "60% of the images are there already"
    almost_full = replace(LAPTOP, free_disk=GB, caches={cache: Missing(0.0, 0.0)})
    whole = make_plan(data, almost_full)
    assert (whole.cache_seconds, whole.cache_bytes) == (0, 0)
    assert whole["decoding"].shown == "done, 1.7 GB"
    assert whole.settings["data.cache"] == "auto"
    assert first.steps < half.steps < whole.steps
    text = show_plan(whole, data, almost_full, "data")
    assert "time: about 54 min of training; the budget" in text
    assert "disk: about 0.1 GB for the run" in text


@pytest.mark.parametrize("cache_format", ["raw", "jpeg"])
def test_a_cache_that_is_there_is_used_though_decoding_would_take_too_long(
    cache_format: str,
) -> None:
    caches = {(((96, 128),) * 3, cache_format): Missing(0.0, 0.0)}
    plan = make_plan(DATA["long"], replace(LAPTOP, caches=caches))
    assert plan["decoding"].shown.startswith("done, ")
    assert plan.settings["data.cache"] == "auto"
    assert plan.settings["data.cache_format"] == cache_format
    by_hand = make_plan(
        DATA["long"], replace(LAPTOP, caches=caches), ByHand({"data.cache_format": cache_format})
    )
    assert by_hand["decoding"].reason.startswith("set by you; all images are there already")
    assert by_hand.cache_seconds == 0


def test_a_gpu_needs_no_download_and_says_where_weights_would_be() -> None:
    plan = make_plan(DATA["so101"], GPU)
    assert plan.settings["backbone_weights"] is None
    assert plan.settings["model.backbone_norm"] == "batch"
    assert "home/resnet18.pth" in plan["network"].reason
    plan = make_plan(DATA["so101"], replace(GPU, has_imagenet=True))
    assert plan.settings["backbone_weights"] == "imagenet"
    assert plan.settings["model.backbone_norm"] == "frozen_batch"
    learning_rate = plan.settings["optim.learning_rate"]
    assert plan.settings["optim.backbone_learning_rate"] == learning_rate / 10


def test_one_demonstration_is_trained_on() -> None:
    plan = make_plan(replace(DATA["five"], lengths=(120,)), LAPTOP)
    assert plan.settings["data.held_out_fraction"] == 0
    assert "nothing is held out" in plan["held-out loss"].reason
    assert plan.steps >= 1000


def test_movements_are_looked_at_again_early_and_positions_are_not() -> None:
    dial = make_plan(DATA["dial"], LAPTOP)
    assert dial.settings["execution.execute_steps"] == 35 // 8
    assert "movements" in dial.settings["execution.reason"]
    cube = make_plan(DATA["cube"], LAPTOP)
    assert cube.settings["execution.execute_steps"] == cube["chunk"].value


def test_fine_tuning_keeps_network_and_images() -> None:
    by_hand = ByHand({"init": "runs/mine", "model": {"width": 64, "chunk_length": 10}})
    plan = make_plan(DATA["aloha"], LAPTOP, by_hand)
    assert plan["network"].shown == "that of init="
    assert plan["chunk"].value == 10
    for name in ("images", "network", "chunk"):
        assert plan[name].change == "init=CHECKPOINT"
    assert "data.select.resize" not in plan.settings
    assert not any(key.startswith("execution") for key in plan.settings)
    assert plan.settings["optim.learning_rate"] == 1e-4


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("1h", 3600), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("1.5h", 5400)],
)
def test_times(given: str, seconds: int) -> None:
    assert parse_time("budget", given) == seconds


@pytest.mark.parametrize("given", ["60", "", "0h", "an hour", "1d", "-1h", 60])
def test_times_that_are_none_are_refused(given: object) -> None:
    with pytest.raises(UserError, match=r"budget=.*1h30m"):
        parse_time("budget", given)
