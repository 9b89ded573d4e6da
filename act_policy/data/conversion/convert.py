"""Convert demonstrations to another format: in parallel, resumable, checked at the end.

OUT/conversion.json     the conversion into this folder, and whether it is finished
OUT/.unfinished         episodes that are not part of the dataset yet; removed at the end
"""

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from act_policy.data.aloha.dataset import AlohaHDF5Dataset
from act_policy.data.aloha.episode import write_episode
from act_policy.data.conversion.check import check_episode
from act_policy.data.dataset import DemonstrationDataset, UndecodableFrameError, name_left_out
from act_policy.data.lerobot.dataset import LeRobotDataset
from act_policy.data.lerobot.source import Parts, describe, take_apart
from act_policy.data.lerobot.staging import (
    LeRobotWriterConfig,
    StagedEpisode,
    read_staged,
    stage_episode,
    write_staged,
)
from act_policy.data.lerobot.writer import assemble
from act_policy.data.open import CONVERSION_FILE
from act_policy.data.reader_config import STATE, ReaderConfig
from act_policy.data.video.writer import ENCODERS, check_encoder
from act_policy.errors import UserError, check_choice, writing
from act_policy.system.atomic import PARTIAL_SUFFIX, atomic_file
from act_policy.system.foreign_files import is_foreign
from act_policy.system.locks import try_lock
from act_policy.system.processes import run_jobs, usable_cores
from act_policy.types import Schema

FORMATS = ("lerobot_v3", "aloha_hdf5")
STAGING_FOLDER = ".unfinished"
FREE_SPACE = "Free some space and run the same command again."
_STUCK_SECONDS = 600.0


@dataclass(frozen=True)
class Conversion:
    """What is converted, where to and how; see `convert`."""

    source: DemonstrationDataset
    out: Path
    target: str
    config: LeRobotWriterConfig
    undecodable: str
    workers: int

    @property
    def staging(self) -> Path:
        """The folder of episodes that are not part of the dataset yet."""
        return self.out / STAGING_FOLDER

    @cached_property
    def parts(self) -> Parts | None:
        """What the source offers to a LeRobotDataset; None for an HDF5 target."""
        return take_apart(self.source) if self.target == "lerobot_v3" else None


def convert(
    source: DemonstrationDataset,
    out: str | Path,
    target: str,
    config: LeRobotWriterConfig | None = None,
    undecodable: str = "stop",
    workers: int | None = None,
    instruction: str = "",
) -> str:
    """Write demonstrations into a folder of another format.

    An interrupted conversion continues where it stopped; every episode is compared with its source
    before the folder counts as a dataset.

    Args:
        source: the demonstrations.
        out: the folder, new or from an earlier attempt at the same conversion.
        target: "lerobot_v3" or "aloha_hdf5".
        config: settings for writing a LeRobotDataset.
        undecodable: "stop" at a frame that cannot be decoded, or "skip" its episode.
        workers: number of processes; by default one per core.
        instruction: for the episodes that have none.

    Returns:
        One sentence that sums up the new dataset.

    Raises:
        UserError: the folder holds something else, a frame cannot be decoded, the disk is full, or
            the written episodes differ from the source.
    """
    check_choice("format", target, FORMATS)
    check_choice("undecodable", undecodable, ("stop", "skip"))
    out, config = Path(out), config or LeRobotWriterConfig()
    source = _instruct(source, instruction)
    job = Conversion(source, out, target, config, undecodable, workers or usable_cores())
    if job.parts and config.images == "video" and not job.parts.has_videos:
        for camera in source.schema.cameras:
            check_encoder(config.codec, camera.height, camera.width)
    plan = {
        "format": target,
        "source": str(source.folder.resolve()),
        "content": _fingerprint(source),
        "undecodable": undecodable,
        **(asdict(config) if job.parts else {}),
    }
    with writing(out, f"; finished parts are kept. {FREE_SPACE}"), _claim(out, plan) as before:
        left_out = _write(job) if before is None else before
        kept = [e for e in range(len(source.episodes)) if str(e) not in left_out]
        _check_all(job, kept)
        if before is None:
            _write_plan(out, plan | {"finished": True, "left_out": left_out})
        shutil.rmtree(job.staging)
    return _summary(source, out, kept)


def config_for(schema: Schema) -> LeRobotWriterConfig:
    """Settings that work on this machine: videos, or PNG where the cameras' sizes allow none."""
    for codec in ENCODERS:
        with suppress(UserError):
            for camera in schema.cameras:
                check_encoder(codec, camera.height, camera.width)
            return LeRobotWriterConfig(codec=codec)
    return LeRobotWriterConfig(images="png")


def _instruct(source: DemonstrationDataset, instruction: str) -> DemonstrationDataset:
    """Copy the source so that episodes without an instruction have this one."""
    changed = copy.copy(source)
    changed.episodes = [
        replace(episode, instruction=episode.instruction or instruction)
        for episode in source.episodes
    ]
    return changed


def _fingerprint(source: DemonstrationDataset) -> str:
    """Hash names, lengths, schema, reader options, and the sizes and times of the files."""
    schema = source.schema.to_dict()
    schema["task"] = schema.pop("environment")  # older conversions use this name
    key = hashlib.sha256(json.dumps(schema).encode())
    for episode, about in enumerate(source.episodes):
        images = [source.image_file(episode, camera) for camera in source.schema.camera_names]
        for file in dict.fromkeys([about.file, *images]):
            status = file.stat()
            key.update(repr((file.name, status.st_size, status.st_mtime_ns)).encode())
        options = [source.frame_key(episode, camera) for camera in source.schema.camera_names]
        told = about.name, about.instruction, options
        key.update(repr(told).encode())
        key.update(source.action(episode).tobytes())
    return key.hexdigest()[:16]


@contextmanager
def _claim(out: Path, plan: dict[str, Any]) -> Iterator[dict[str, str] | None]:
    """Claim the folder for this conversion.

    Yields the reasons by number of the episodes that it left out, or None if it is not finished.
    """
    file = out / CONVERSION_FILE
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; out= must be a folder")
    if out.resolve() == Path(plan["source"]):
        raise UserError(f"{out}: is the source itself; give another folder as out=")
    left_out = None
    if file.exists():
        try:
            before = json.loads(file.read_text())
        except ValueError as error:
            raise UserError(f"{file}: is not JSON ({error}); remove the folder") from None
        if different := [name for name, value in plan.items() if before.get(name) != value]:
            raise UserError(
                f"{out}: holds a conversion of another kind: "
                + "; ".join(f"{n} was {before.get(n)}, now {plan[n]}" for n in different)
                + ". Give another folder as out=, or remove this one."
            )
        if before.get("finished"):
            left_out = before.get("left_out", {})
    elif out.exists() and (found := sorted(_found_of_others(out, Path(plan["source"])))):
        raise UserError(
            f"{out}: holds something else ({', '.join(found[:5])}); give a new or empty folder"
        )
    else:
        _write_plan(out, plan | {"finished": False})
    (out / STAGING_FOLDER).mkdir(exist_ok=True)
    with (out / STAGING_FOLDER / "lock").open("wb") as lock:
        if not try_lock(lock):
            raise UserError(f"{out}: another process is converting into this folder")
        yield left_out


def _found_of_others(out: Path, source: Path) -> Iterator[str]:
    """Yield what is in a folder, except what a conversion killed at its first step leaves.

    Nor is the source a reason to refuse the folder, or what another system leaves in every one.
    """
    for name in os.listdir(out):
        own = name.startswith(f".{CONVERSION_FILE}.") and name.endswith(PARTIAL_SUFFIX)
        if not own and not is_foreign(name) and (out / name).resolve() != source:
            yield name


def _write_plan(out: Path, plan: dict[str, Any]) -> None:
    with atomic_file(out / CONVERSION_FILE) as file:
        file.write(json.dumps(plan, indent=2).encode())


def _write(job: Conversion) -> dict[str, str]:
    """Write all episodes; return the reasons by number of those that are left out."""
    _stage_all(job)
    staged = [read_staged(job.staging, episode) for episode in range(len(job.source.episodes))]
    kept = [episode for episode in staged if episode and not episode.left_out]
    left_out = {str(e.episode): e.left_out for e in staged if e and e.left_out}
    if not kept:
        why = next(iter(left_out.values()))
        raise UserError(f"{job.source.folder}: no episode can be decoded; {why}")
    if job.parts:
        _assemble(job, job.parts, kept)
    return left_out


def _stage_all(job: Conversion) -> None:
    lengths = job.source.lengths
    todo = [e for e in range(len(lengths)) if read_staged(job.staging, e) is None]
    steps = int(lengths.sum())
    with tqdm(total=steps, desc="converting", unit="step", disable=None) as bar:
        bar.update(steps - int(lengths[todo].sum()))
        run_jobs(
            partial(_make_stager, job),
            todo,
            job.workers,
            _STUCK_SECONDS,
            lambda episode, _: (bar.update(int(lengths[episode])), None)[1],
        )


def _make_stager(job: Conversion) -> Callable[[int, Callable[[], None]], None]:
    """Return the function that stages one episode; called once in each process."""
    return partial(_stage_one, job)


def _stage_one(job: Conversion, episode: int, alive: Callable[[], None]) -> None:
    """Stage one episode: the parts of a LeRobotDataset, or an HDF5 file."""
    about = job.source.episodes[episode]
    known = StagedEpisode(
        *(episode, about.length, [about.instruction], {}, {}, about.seed, about.outcome),
        ended=about.ended,
    )
    with writing(f"{job.out}: {about.name}", f". {FREE_SPACE}"):
        try:
            if job.parts:
                stage_episode(job.parts, known, job.staging, job.config, alive)
            else:
                _write_hdf5(job.source, episode, job.out / f"episode_{episode:06d}.hdf5", alive)
                write_staged(job.staging, known)
        except UndecodableFrameError as error:
            if job.undecodable == "stop":
                raise
            write_staged(job.staging, known._replace(left_out=str(error)))


def _write_hdf5(
    source: DemonstrationDataset, episode: int, path: Path, alive: Callable[[], None]
) -> None:
    schema, about = source.schema, source.episodes[episode]
    steps = about.length
    images: dict[str, np.ndarray] = {}
    for camera in schema.cameras:
        images[camera.name] = np.empty((steps, camera.height, camera.width, 3), np.uint8)
        for step in range(steps):
            images[camera.name][step] = source.frame(episode, step, camera.name)
            alive()
    vectors = {name: source.vector(episode, name) for name in source.vector_names}
    velocity = vectors.pop("velocity", None)
    if velocity is not None and velocity.shape[1] != schema.state_size:
        vectors["velocities"], velocity = velocity, None
    write_episode(
        path,
        schema,
        images,
        source.state(episode),
        source.action(episode),
        velocity=velocity,
        seed=about.seed,
        success=about.outcome,
        vectors=vectors,
        instruction=about.instruction,
        timestamps=source.timestamps(episode),
        image_times=source.image_times(episode),
        ended=about.ended,
    )


def _assemble(job: Conversion, parts: Parts, episodes: list[StagedEpisode]) -> None:
    with tqdm(desc="assembling", unit="file", disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        about = describe(parts, job.config.images == "video")
        assemble(job.out, job.staging, episodes, about, job.config, job.workers, show)


def _check_all(job: Conversion, kept: list[int]) -> None:
    pairs = list(enumerate(kept))
    with tqdm(total=len(pairs), desc="checking", unit="episode", disable=None) as bar:
        run_jobs(
            partial(_make_checker, job),
            pairs,
            job.workers,
            _STUCK_SECONDS,
            lambda *_: (bar.update(1), None)[1],
        )


def _make_checker(job: Conversion) -> Callable[..., None]:
    # `open_dataset` refuses the folder, which does not count as a dataset yet.
    written: DemonstrationDataset
    no_state = {STATE: None} if not job.source.schema.state_names else None
    reader = ReaderConfig(features=no_state)
    written = LeRobotDataset(job.out, reader) if job.parts else AlohaHDF5Dataset(job.out, reader)
    if written.schema != job.source.schema:
        differences = "; ".join(written.schema.differences(job.source.schema))
        raise UserError(f"{job.out}: the schema differs from the source's: {differences}")
    return partial(check_episode, job.source, written)


def _summary(source: DemonstrationDataset, out: Path, kept: list[int]) -> str:
    text = f"{out}: {len(kept)} episodes, {int(source.lengths[kept].sum())} steps, all checked"
    if missing := len(source.episodes) - len(kept):
        text += f"; {missing} left out, named in {CONVERSION_FILE}"
    # contents that the source's reader left alone may still be columns of a LeRobotDataset
    file = out / "meta" / "info.json"
    copied = json.loads(file.read_text())["features"] if file.exists() else {}
    lost = {name: why for name, why in source.left_out.items() if name not in copied}
    if lost:
        text += f"; not converted: {'; '.join(name_left_out(lost))}"
    several = sum(len(source.instructions(episode)) > 1 for episode in kept)
    if several and not copied:
        told = f"{several} of {len(kept)} episodes had several instructions"
        text += f"; {told}, which one text now lists"
    return text
