"""Films of episodes, made beside the loop: a thread takes the images, a process encodes them."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from act_policy.system.group_signals import unreached_by_group_signals

FILM_RATE = 5.0
"""Images per second."""

FILM_HEIGHT = 160
"""Pixels at most; larger images are thinned."""

MOST_WAITING = 200
"""Images in memory for a slow disk; what comes then is left out."""

PATIENCE = 120.0
"""Seconds that the end waits for the films."""


class FilmMaker:
    """Takes images while `begin` has been called, and makes a film of them at `keep`.

    No method waits for the disk or the encoding.

    Args:
        folder: of the films; it exists.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._name = ""
        self._next = 0.0
        self._waiting: queue.Queue[tuple[str, str, np.ndarray | None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, name="film", daemon=True)
        self._thread.start()

    def begin(self, name: str) -> None:
        """Take images from now on, for the film of this file name."""
        self._name, self._next = name, 0.0

    def look(self, images: Mapping[str, np.ndarray], now: float) -> None:
        """The robot sees these images (h, w, 3); they are copied if it is time for one."""
        if not self._name or now < self._next or self._waiting.qsize() > MOST_WAITING:
            return
        self._next = now + 1 / FILM_RATE
        with suppress(Exception):  # of a driver's images; a film is not worth a fault
            self._waiting.put_nowait(("image", self._name, _side_by_side(images)))

    def end(self) -> str:
        """Take no more images; return the film's name."""
        name, self._name = self._name, ""
        return name

    def keep(self, name: str) -> None:
        """Make the film that was ended."""
        self._waiting.put_nowait(("keep", name, None))

    def drop(self, name: str) -> None:
        """Throw away what was taken for it, and the film if it was made already."""
        self._waiting.put_nowait(("drop", name, None))

    def close(self) -> None:
        """Wait until the films are made."""
        self._waiting.put_nowait(None)
        self._thread.join(PATIENCE)

    def _work(self) -> None:
        shape: tuple[int, ...] = ()
        while (item := self._waiting.get()) is not None:
            what, name, image = item
            raw = self._folder / f".{name}.raw"
            with suppress(Exception):  # a full disk: the episode counts without its film
                if what == "image" and image is not None:
                    if not raw.exists():
                        shape = image.shape
                    if image.shape == shape:
                        with raw.open("ab") as file:
                            image.tofile(file)
                    continue
                if what == "keep" and raw.exists():
                    context = multiprocessing.get_context("spawn")
                    arguments = (raw, shape, self._folder / name)
                    process = context.Process(target=_encode, args=arguments, daemon=True)
                    with unreached_by_group_signals():
                        process.start()
                    process.join(PATIENCE)
                    if process.is_alive():
                        process.kill()
            raw.unlink(missing_ok=True)
            if what == "drop" and name:
                (self._folder / name).unlink(missing_ok=True)
        for left in self._folder.glob(".*.raw"):  # of an episode that nobody judged
            left.unlink(missing_ok=True)


def _side_by_side(images: Mapping[str, np.ndarray]) -> np.ndarray:
    """One image (h, w, 3) of all cameras, thinned."""
    small = []
    for image in images.values():
        step = -(-image.shape[0] // FILM_HEIGHT)
        small.append(image[::step, ::step])
    height = max(image.shape[0] for image in small)
    film = np.zeros((height, sum(image.shape[1] for image in small), 3), np.uint8)
    left = 0
    for image in small:
        film[: image.shape[0], left : left + image.shape[1]] = image
        left += image.shape[1]
    return film


def _encode(raw: Path, shape: tuple[int, ...], film: Path) -> None:
    """Encode images as an animated WebP, which appears once it is whole."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the command
        signal.signal(number, signal.SIG_IGN)
    os.nice(10)
    from PIL import Image

    pixels = np.fromfile(raw, np.uint8)
    count = len(pixels) // int(np.prod(shape))
    frames = pixels[: count * int(np.prod(shape))].reshape(count, *shape)
    first, *others = [Image.fromarray(frame) for frame in frames]
    partial = film.with_name(f".{film.name}.partial")
    first.save(
        partial, "WEBP", save_all=True, append_images=others, duration=round(1000 / FILM_RATE),
        loop=0, quality=60, method=2,
    )  # fmt: skip
    os.replace(partial, film)
