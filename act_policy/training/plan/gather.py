"""Read the facts of a plan from the demonstrations and from the machine."""

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from act_policy.action_kinds import declared_kind
from act_policy.checkpoints.backbone_weights import imagenet_file
from act_policy.data.dataset import UndecodableFrameError
from act_policy.data.frames.missing import EVERYTHING, Missing, find_missing
from act_policy.data.frames.store import cache_folder
from act_policy.data.selection.demonstrations import Demonstrations
from act_policy.data.selection.mixed import MixedDataset
from act_policy.data.statistics import compute_statistics
from act_policy.images.jpeg import decode_jpeg, encode_jpeg
from act_policy.images.resize import crop_and_resize
from act_policy.system.processes import usable_cores
from act_policy.training.plan.choices import IMAGE_SIZES, scale_camera
from act_policy.training.plan.facts import DataFacts, MachineFacts, Sizes

LOOKED_AT = 20
"""Number of demonstrations in which the kinds of actions are looked for."""
COMPRESSED, DECODED, DECODING_SECONDS = 4, 32, 0.5
"""Images per camera that are compressed to see what that costs; images at most, and seconds, in
which the time to decode one is measured."""


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
    images = _measure_images(dataset)
    facts = DataFacts(
        rate=schema.rate,
        lengths=tuple(int(length) for length in dataset.lengths),
        cameras=schema.cameras,
        state_size=schema.state_size,
        action_size=schema.action_size,
        moves_by=_find_moves(dataset),
        read_raw=raw,
        decoding_seconds=images.decoding_seconds,
        jpeg_bytes=images.jpeg_bytes,
        jpeg_error=images.jpeg_error,
    )
    dataset.close()
    return facts


def read_machine_facts(
    dataset: Demonstrations, cache: str | Path | None, use_gpu: bool, sizes: Iterable[Sizes]
) -> MachineFacts:
    """Describe the machine.

    Args:
        dataset: says where decoded images would be kept.
        cache: the setting data.cache.
        use_gpu: whether to train on a GPU if there is one.
        sizes: of the images, those that a plan may choose.
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
        caches={} if cache is None else _look_for_caches(dataset, cache, sizes),
        gpu=gpu,
        imagenet=imagenet,
        has_imagenet=imagenet.is_file(),
        multiplies_bfloat16=_multiplies_bfloat16(),
    )


def _look_for_caches(
    dataset: Demonstrations, cache: str | Path, sizes: Iterable[Sizes]
) -> dict[tuple[Sizes, str], Missing]:
    """Find the caches that were begun, at each of these sizes."""
    parts = dataset.parts if isinstance(dataset, MixedDataset) else [dataset]
    folder = None if cache == "auto" else cache
    found = {}
    for one in sizes:
        of_camera = dict(zip(dataset.schema.camera_names, one, strict=True))
        scaled = [part.scale(of_camera) for part in parts]
        for cache_format, missing in find_missing(scaled, folder).items():
            if missing != EVERYTHING:
                found[one, cache_format] = missing
    return found


def _multiplies_bfloat16() -> bool:
    """Whether the processor has AMX for bfloat16; with other instructions nothing is won."""
    processor = Path("/proc/cpuinfo")
    return processor.is_file() and " amx_bf16 " in processor.read_text()


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


class _Images(NamedTuple):
    """What was measured on some images; see `DataFacts`."""

    decoding_seconds: float = DataFacts.decoding_seconds
    jpeg_bytes: float = DataFacts.jpeg_bytes
    jpeg_error: float = DataFacts.jpeg_error


def _measure_images(dataset: Demonstrations) -> _Images:
    """Measure the mean time to read, decode and scale an image, in order, and what a JPEG costs."""
    episode = len(dataset.episodes) // 2
    seconds: list[float] = []
    sizes: list[float] = []
    errors: list[float] = []
    for camera in dataset.schema.cameras:
        height, width = scale_camera(camera, IMAGE_SIZES[1].pixels)
        spent = 0.0
        for step in range(min(DECODED, int(dataset.lengths[episode]))):
            begin = time.perf_counter()
            try:
                image = dataset.frame(episode, step, camera.name)
            except UndecodableFrameError:
                continue  # named when the frames are read
            image = crop_and_resize(image, None, height, width)
            if step:  # opening the file counts for nothing: it is done once per episode
                seconds.append(time.perf_counter() - begin)
                spent += seconds[-1]
            if step < COMPRESSED:
                content = encode_jpeg(image)
                sizes.append(len(content) / (height * width))
                again = decode_jpeg(content, [(height, width)])
                errors.append(float(abs(again.astype(np.int16) - image).mean()))
            if spent > DECODING_SECONDS:
                break
    if not seconds:
        return _Images()
    return _Images(*(float(np.mean(values)) for values in (seconds, sizes, errors)))


def _free_memory() -> int:
    """Bytes that can be had without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
