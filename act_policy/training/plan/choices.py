"""The rules for what is trained: one function per choice, which says what is chosen and why.

Every number here is of a recipe that was measured (docs/recipe.md, docs/results.md), or is marked
as not measured.
"""

import math
from typing import Any, NamedTuple

from act_policy.training.plan.facts import ByHand, DataFacts, MachineFacts, Sizes
from act_policy.training.plan.plan import Choice, show_bytes
from act_policy.types import Camera

BY_HAND, INITIAL = "set by you", "init=CHECKPOINT"


class ImageSize(NamedTuple):
    """The area of an image in pixels, and the samples that there must be time for."""

    pixels: int
    samples: int
    reason: str


FINER = "as fine as there is time for"
IMAGE_SIZES = (
    ImageSize(72 * 96, 0, "coarse: there is no time to learn from finer images"),
    # 64,000 samples gave 94 of 100 on average, 153,600 gave 100
    ImageSize(96 * 128, 60_000, "fine enough to grasp a cube (in simulation)"),
    ImageSize(120 * 160, 450_000, FINER),  # not measured
    ImageSize(240 * 320, 900_000, FINER),  # not measured
)
KEPT_AS_IS = 1.3
"""An image of at most so many times the pixels is not scaled."""

CHUNK_SECONDS, SHORTEST_CHUNK, LONGEST_CHUNK = 1.2, 8, 100
"""Cube transfer: 60 steps of 50 a second. In steps, the fewest and the most."""

EXECUTED_SHARE = 8
"""Of a chunk of movements one in so many steps is executed: with 4 of 32 steps the dial was turned
100 times of 100, with whole chunks 88 times. Chunks of positions are executed whole: the cube was
handed over 100 times of 100, and 56 of 60 times with two thirds of each chunk (docs/recipe.md)."""

HELD_OUT_SHARE, MOST_HELD_OUT, MOST_HELD_OUT_STEPS = 0.05, 10, 5000
"""Of the demonstrations, in number, and their steps, all of which each held-out loss looks at."""

BACKBONES = {"imagenet": "ImageNet's weights"}

BATCH, BYTES_PER_PIXEL = 64, 200
"""Samples, and memory of a training step per pixel of its images, about, for either network."""

LEARNING_RATES = {"act_small": 5e-4, "act_medium": 3e-4}
"""For batches of 64. act_small: between 5e-4 (Meta-World) and 6e-4 (ALOHA). act_medium: not
measured."""
TRIED_RATES = {
    "act_small": "about the rate at which this network learned simulated tasks",
    "act_medium": "lower than for the small network; not yet tried on a task",
}
CAREFUL_LEARNING_RATE = 1e-4
"""For weights that are good already, and for networks of the user's own."""

PRECISIONS = {"auto": "float32", "32-true": "float32", "bf16-mixed": "bfloat16"}
"""In words; auto is that of a CPU."""
LEAST_GAIN = 1.15
"""Of bfloat16 on a CPU: how many times as fast as float32 a step must be, or float32 stays."""

MOST_CHECKS, CHECKS_SHARE = 12, 0.05
"""Held-out losses of a run, in number and in share of its time."""


def choose_images(data: DataFacts, by_hand: ByHand, size: ImageSize) -> Choice:
    """Choose the size of each camera's images, as `Sizes`; the whole view is kept."""
    now = tuple((camera.height, camera.width) for camera in data.cameras)
    name, change = "images", "data.select.resize=[H,W]"
    if by_hand.has("init"):
        return Choice(name, now, _show_sizes(now), "as the policy of init= sees them", INITIAL)
    if by_hand.has("data.select.resize"):
        return Choice(name, now, _show_sizes(now), BY_HAND, change)
    sizes = tuple(scale_camera(camera, size.pixels) for camera in data.cameras)
    if sizes == now:
        return Choice(name, now, _show_sizes(now), "small enough as they are", change)
    resize = {c.name: list(wanted) for c, wanted in zip(data.cameras, sizes, strict=True)}
    shown, reason = _show_sizes(sizes), f"whole view, {size.reason}"
    return Choice(name, sizes, shown, reason, change, {"data.select.resize": resize})


def list_sizes(data: DataFacts, by_hand: ByHand) -> set[Sizes]:
    """List the sizes among which `choose_images` chooses."""
    return {choose_images(data, by_hand, size).value for size in IMAGE_SIZES}


def choose_network(machine: MachineFacts, by_hand: ByHand) -> Choice:
    """Choose the network by its name in configs/model; "" is one that has none there."""
    name, change = "network", "model=NAME"
    if by_hand.has("init"):
        return Choice(name, "", "that of init=", "its weights are the beginning", INITIAL)
    if by_hand.has("model"):
        chosen = by_hand.get("network", "")
        return Choice(name, chosen, chosen or "your own", BY_HAND, change)
    weights = by_hand.get("backbone_weights", "auto")
    if not machine.gpu and weights in (None, "auto"):
        reason = "small: learned to grasp a simulated cube in 15 min on two cores"
        return Choice(name, "act_small", "act_small", reason, change, {"model": "act_small"})
    if weights == "auto":
        weights = "imagenet" if machine.has_imagenet else None
    settings = {
        "model": "act_medium",
        "model.backbone_norm": "frozen_batch" if weights else "batch",
        "backbone_weights": weights,
    }
    shown = "act_medium, pretrained" if weights else "act_medium, from scratch"
    reason = f"its image encoder starts from {BACKBONES.get(weights, weights)}"
    if not weights:
        reason = "backbone_weights=null"
        if not by_hand.has("backbone_weights"):
            reason = f"takes ImageNet's weights if torchvision's file is at {machine.imagenet}"
    return Choice(name, "act_medium", shown, reason, change, settings)


def choose_chunk(data: DataFacts, by_hand: ByHand) -> Choice:
    """Choose how many steps are predicted at once, by the time that they take."""
    name, change = "chunk", "model.chunk_length=N"
    if (steps := by_hand.get("model.chunk_length")) is not None:
        if by_hand.has("init"):
            shown = _show_steps(steps, data.rate)
            return Choice(name, steps, shown, "as many as the policy of init= predicts", INITIAL)
        return Choice(name, steps, _show_steps(steps, data.rate), BY_HAND, change)
    steps = round(CHUNK_SECONDS * data.rate)
    reason = f"{CHUNK_SECONDS} s of motion at once, as for the simulated cube"
    if steps < SHORTEST_CHUNK:
        steps, reason = SHORTEST_CHUNK, "the fewest steps that are planned"
    if steps > LONGEST_CHUNK:
        steps, reason = LONGEST_CHUNK, "the most steps that are planned"
    if steps > max(data.typical_length // 2, 1):
        steps = max(data.typical_length // 2, 1)
        reason = f"half of a typical demonstration of {data.typical_length} steps"
    settings = {"model.chunk_length": steps}
    return Choice(name, steps, _show_steps(steps, data.rate), reason, change, settings)


def choose_execution(data: DataFacts, by_hand: ByHand, chunk: int) -> Choice:
    """Choose how many steps of a chunk are executed before the policy is asked again."""
    name, key = "execution", "execution.execute_steps"
    change = f"{key}=N"
    if (m := by_hand.get("execution.ensemble_coefficient")) is not None:
        return Choice(name, None, f"averaged chunks, {m:g}", BY_HAND, "execution.*")
    if (steps := by_hand.get(key)) is not None:
        return Choice(name, steps, _show_steps(steps, data.rate), BY_HAND, change)
    if by_hand.has("init"):
        return Choice(name, None, "that of init=", "network and chunks stay as they are", change)
    if data.moves_by == "movement":
        steps = max(chunk // EXECUTED_SHARE, 1)
        shown = _show_steps(steps, data.rate)
        reason = "actions are movements: asking again early keeps errors from adding up"
    else:
        steps, shown = chunk, "whole chunks"
        reason = "actions are positions: asking again midway was unsteady in simulation"
    settings = {key: steps, "execution.reason": f"planned: {reason}"}
    return Choice(name, steps, shown, reason, change, settings)


def choose_held_out(data: DataFacts, by_hand: ByHand) -> Choice:
    """Choose how many demonstrations are not trained on."""
    count, key = len(data.lengths), "data.held_out_fraction"
    name, change = "held out", f"{key}=0.1"
    if (listed := by_hand.get("data.held_out_episodes")) is not None:
        return Choice(name, len(listed), f"{len(listed)} of {count:,}", BY_HAND, change)
    if by_hand.get("data.train_episodes") is not None:
        return Choice(name, 0, "none", BY_HAND, change)
    if (fraction := by_hand.get(key)) is not None:
        wanted = min(max(round(count * fraction), int(fraction > 0)), count - 1)
        return Choice(name, wanted, f"{wanted} of {count:,}", BY_HAND, change)
    wanted = min(round(count * HELD_OUT_SHARE), MOST_HELD_OUT)
    wanted = min(wanted, MOST_HELD_OUT_STEPS // max(data.typical_length, 1))
    wanted = min(max(wanted, 1), count - 1)
    reason = "to judge the policy; the others are needed to train it"
    if wanted == 0:
        reason = "with one demonstration nothing can judge the policy"
    shown = f"{wanted} of {count:,}"
    return Choice(name, wanted, shown, reason, change, {key: wanted / count})


def choose_batch(data: DataFacts, machine: MachineFacts, by_hand: ByHand, sizes: Sizes) -> Choice:
    """Choose how many samples a step shows."""
    name, change = "batch", "data.batch_size=N"
    if (batch := by_hand.get("data.batch_size")) is not None:
        return Choice(name, batch, f"{batch} samples", BY_HAND, change)
    pixels = sum(height * width for height, width in sizes)
    fits = int(machine.free_memory / 2 / (pixels * BYTES_PER_PIXEL))
    batch, reason = BATCH, "as in every training that worked well"
    if min(fits, data.frames) < BATCH:
        batch = 2 ** int(math.log2(max(min(fits, data.frames), 1)))
        reason = f"the demonstrations have only {data.frames} steps"
        if fits < data.frames:
            reason = f"fits into half of the free memory of {show_bytes(machine.free_memory)}"
    settings = {"data.batch_size": batch}
    return Choice(name, batch, f"{batch} samples", reason, change, settings)


def choose_learning_rate(network: Choice, batch: int, steps: int, by_hand: ByHand) -> Choice:
    """Choose peak, warm-up, and a tenth of the peak for a pretrained image encoder."""
    name, change = "learning rate", "optim.learning_rate=X"
    rate = LEARNING_RATES.get(network.value, CAREFUL_LEARNING_RATE)
    reason = TRIED_RATES.get(network.value, "")
    if by_hand.has("init"):
        reason = "careful, since the weights are good already"
    elif network.value not in LEARNING_RATES:
        reason = "careful, since no rate was tried with this network"
    elif batch < BATCH:
        rate = float(f"{rate * math.sqrt(batch / BATCH):.1g}")
        reason = f"lower, since the batch is smaller than {BATCH}"
    if by_hand.has("optim.learning_rate"):
        rate, reason = by_hand.get("optim.learning_rate"), BY_HAND
    pretrained = network.settings.get("model.backbone_norm") == "frozen_batch"
    settings = {
        "optim.learning_rate": rate,
        "optim.backbone_learning_rate": rate / 10 if pretrained else rate,
        "optim.warmup_steps": min(max(100, steps // 20), steps // 10, 500),
    }
    return Choice(name, rate, f"{rate:g}", reason, change, settings)


def choose_checks(
    data: DataFacts, by_hand: ByHand, held_out: int, steps: int, batch: int
) -> Choice:
    """Choose the steps between held-out losses, which take a third of training's time a sample."""
    name, change = "held-out loss", "validate_every=N"
    judged = held_out * data.typical_length / 3
    number = int(steps * batch * CHECKS_SHARE / judged) if judged else MOST_CHECKS
    every = max(-(-steps // min(max(number, 2), MOST_CHECKS)), 1)
    reason = "on the demonstrations held out; also saves a checkpoint"
    if held_out == 0:
        reason = "none, since nothing is held out; saves a checkpoint"
    if (given := by_hand.get("validate_every")) is not None:
        every, reason = given, BY_HAND
    settings: dict[str, Any] = {
        "validate_every": every,
        "log_every": min(50, every, max(steps // 20, 1)),
    }
    return Choice(
        name,
        every,
        "every step" if every == 1 else f"every {every:,} steps",
        reason,
        change,
        settings,
    )


def choose_device(machine: MachineFacts, by_hand: ByHand) -> Choice:
    """Choose the precision on a CPU, and say where is trained; trainer=auto finds that out."""
    name, change = "device", "trainer.threads=N"
    precision, threads = by_hand.get("trainer.precision", "auto"), by_hand.get("trainer.threads")
    is_given = precision != "auto" or threads is not None or by_hand.has("trainer")
    reason = BY_HAND if is_given else "what this machine has"
    in_words = PRECISIONS.get(precision, precision)
    if machine.gpu:
        shown = f"{machine.gpu}, {'bfloat16' if precision == 'auto' else in_words}"
        return Choice(name, "gpu", shown, reason, "trainer.precision=32-true")
    cores = _count(machine.cores, "core") if threads is None else _count(threads, "thread")
    gain = machine.bfloat16_gain
    if precision == "auto" and gain is not None:
        measured = f"a step in bfloat16 is {gain:.2f} times as fast as in float32"
        if gain >= LEAST_GAIN:
            settings = {"trainer.precision": "bf16-mixed"}
            change = "trainer.precision=32-true"
            return Choice(name, "cpu", f"{cores}, bfloat16", measured, change, settings)
        if gain < 1:
            measured = f"a step in bfloat16 takes {1 / gain:.2f} times as long as in float32"
        reason = f"{measured}{': too little to gain' if gain >= 1 else ''}"
    return Choice(name, "cpu", f"{cores}, {in_words}", reason, change)


def scale_camera(camera: Camera, pixels: int) -> tuple[int, int]:
    """Give the height and width, of the same shape and multiples of 8, of about so many pixels.

    Images are never enlarged.
    """
    if camera.height * camera.width <= KEPT_AS_IS * pixels:
        return camera.height, camera.width
    height = max(round(math.sqrt(pixels * camera.height / camera.width) / 8) * 8, 8)
    width = max(round(height * camera.width / camera.height / 8) * 8, 8)
    return height, width


def _show_steps(steps: int, rate: float) -> str:
    return f"{steps} steps, {steps / rate:.2g} s"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _show_sizes(sizes: Sizes) -> str:
    return ", ".join(f"{height}x{width}" for height, width in dict.fromkeys(sizes))
