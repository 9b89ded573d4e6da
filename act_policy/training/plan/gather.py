"""Read the facts of a plan from the demonstrations and from the machine."""

import os
import shutil
import time
from pathlib import Path

import torch

from act_policy.action_kinds import declared_kind
from act_policy.checkpoints.backbone_weights import imagenet_file
from act_policy.data.dataset import UndecodableFrameError
from act_policy.data.frames.store import cache_folder
from act_policy.data.selection.demonstrations import Demonstrations
from act_policy.data.statistics import compute_statistics
from act_policy.images.resize import crop_and_resize
from act_policy.system.processes import usable_cores
from act_policy.training.plan.choices import IMAGE_SIZES, scale_camera
from act_policy.training.plan.facts import DataFacts, MachineFacts

LOOKED_AT = 20
"""Number of demonstrations in which the kinds of actions are looked for."""
DECODED, DECODING_SECONDS = 32, 0.5
"""Images per camera at most, and seconds, in which the time to decode one is measured."""


def read_data_facts(dataset: Demonstrations) -> DataFacts:
    """Describe the demonstrations, as selected; decodes some images to measure how long it takes.

    Raises:
        UserError: a state or action is not finite.
    """
    schema = dataset.schema
    episodes = range(len(dataset.episodes))
    raw = all(
        dataset.frame_offsets(episode, camera.name) is not None
        for episode in episodes[:1]
        for camera in schema.cameras
    )
    facts = DataFacts(
        rate=schema.rate,
        lengths=tuple(int(length) for length in dataset.lengths),
        cameras=schema.cameras,
        state_size=schema.state_size,
        action_size=schema.action_size,
        moves_by=_find_moves(dataset),
        read_raw=raw,
        decoding_seconds=_measure_decoding(dataset),
    )
    dataset.close()
    return facts


def read_machine_facts(
    dataset: Demonstrations, cache: str | Path | None, use_gpu: bool
) -> MachineFacts:
    """Describe the machine.

    Args:
        dataset: says where decoded images would be kept.
        cache: the setting data.cache.
        use_gpu: whether to train on a GPU if there is one.
    """
    folder = cache_folder(dataset, None if cache in (None, "auto") else cache)
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    imagenet = imagenet_file("resnet18")
    gpu, free = "", _free_memory()
    if use_gpu and torch.cuda.is_available():
        gpu = torch.cuda.get_device_name()
        free, _ = torch.cuda.mem_get_info()
    return MachineFacts(
        cores=usable_cores(),
        free_memory=free,
        free_disk=shutil.disk_usage(there).free,
        cache=folder,
        gpu=gpu,
        imagenet=imagenet,
        has_imagenet=imagenet.is_file(),
    )


def _find_moves(dataset: Demonstrations) -> str:
    """Whether most actions are movements; see `action_kinds`."""
    some = range(min(len(dataset.episodes), LOOKED_AT))
    shown = compute_statistics(dataset, some).action_kinds
    kinds = [
        {kind, declared_kind(*action)}
        for kind, action in zip(shown, dataset.schema.actions, strict=True)
    ]
    moves = sum(bool(kind & {"displacement", "velocity", "motion"}) for kind in kinds)
    return "movement" if 2 * moves > len(kinds) else "position"


def _measure_decoding(dataset: Demonstrations) -> float:
    """Measure the mean time to read, decode and scale an image, read in order as a cache is."""
    episode = len(dataset.episodes) // 2
    number = 0
    seconds = 0.0
    for camera in dataset.schema.cameras:
        height, width = scale_camera(camera, IMAGE_SIZES[1].pixels)
        spent = 0.0
        # opening the file counts for nothing: it is done once per episode
        for step in range(min(DECODED, int(dataset.lengths[episode]))):
            begin = time.perf_counter()
            try:
                image = dataset.frame(episode, step, camera.name)
            except UndecodableFrameError:
                continue  # named when the frames are read
            crop_and_resize(image, None, height, width)
            took = time.perf_counter() - begin
            if step:
                spent, seconds, number = spent + took, seconds + took, number + 1
            if spent > DECODING_SECONDS:
                break
    return seconds / number if number else DataFacts.decoding_seconds


def _free_memory() -> int:
    """Bytes that can be had without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
