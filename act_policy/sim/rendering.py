"""Draw images of a MuJoCo scene: find a GL backend that works, and render quickly."""

import atexit
import importlib
import os
import subprocess
import sys
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from act_policy.errors import UserError, check_choice
from act_policy.sim.appearance import Dressing

Size = tuple[int, int]
"""Height and width in pixels."""

PROBE_SECONDS = 60.0
PROBE = (
    "import importlib, mujoco\n"
    "context = importlib.import_module('mujoco.{backend}').GLContext(16, 16)\n"
    "context.make_current()\n"
    "model = mujoco.MjModel.from_xml_string('<mujoco/>')\n"
    "mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value).free()\n"
    "context.free()\n"
)


def choose_gl_backend() -> str:
    """Return the GL backend to render with, and set MUJOCO_GL to it so that children inherit it.

    A MUJOCO_GL that is set is left alone. Otherwise EGL, OSMesa and, with a display, GLFW are tried
    in this order, each in a process of its own that may crash or hang, and the first that can draw
    is named on stderr. Call it before anything imports mujoco.
    """
    if named := os.environ.get("MUJOCO_GL", "").strip().lower():
        return named
    if sys.platform == "darwin":
        candidates = ["cgl"]
    else:
        candidates = ["egl", "osmesa"] + (["glfw"] if os.environ.get("DISPLAY") else [])
    failures = {}
    for backend in candidates:
        failure = probe_gl_backend(backend)
        if failure is None:
            os.environ["MUJOCO_GL"] = backend
            print(f"rendering with MUJOCO_GL={backend}", file=sys.stderr)
            return backend
        failures[backend] = failure
    tried = "".join(f"\n  {backend}: {failure}" for backend, failure in failures.items())
    raise UserError(
        f"no GL backend can render here; tried:{tried}\n"
        "Install one of them, on Debian or Ubuntu: apt-get install libegl1 libgl1-mesa-dri (EGL), "
        "or apt-get install libosmesa6 (OSMesa); with a screen, set DISPLAY to use GLFW."
    )


def probe_gl_backend(backend: str, seconds: float = PROBE_SECONDS) -> str | None:
    """Try to make a drawing context in another process; return None, or why it failed."""
    try:
        run = subprocess.run(
            [sys.executable, "-c", PROBE.format(backend=backend)],
            env={**os.environ, "MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds:g} s"
    if run.returncode == 0:
        return None
    lines = run.stderr.strip().splitlines()
    return lines[-1] if lines else f"ended with code {run.returncode}"


def import_mujoco() -> Any:
    """Import mujoco with a GL backend that works; UserError says what is missing."""
    backend = choose_gl_backend()
    try:
        return importlib.import_module("mujoco")
    except ModuleNotFoundError as error:
        raise UserError(
            f"the simulator is not installed ({error}); pip install '.[sim]' in a checkout"
        ) from error
    except Exception as error:  # a missing GL library raises AttributeError, among others
        raise UserError(_does_not_work(backend, error)) from error


def _does_not_work(backend: str, error: Exception) -> str:
    return (
        f"MUJOCO_GL={backend} does not work here ({error}); "
        "unset MUJOCO_GL, and a backend that works is chosen"
    )


class Pose(NamedTuple):
    """The pose of everything visible at one moment: copies of mjData's arrays of the same names."""

    geom_xpos: np.ndarray
    geom_xmat: np.ndarray
    site_xpos: np.ndarray
    site_xmat: np.ndarray
    cam_xpos: np.ndarray
    cam_xmat: np.ndarray
    light_xpos: np.ndarray
    light_xdir: np.ndarray

    @classmethod
    def of(cls, data: Any) -> "Pose":
        """Copy the pose out of a mjData whose kinematics are up to date."""
        return cls(*(getattr(data, field).copy() for field in cls._fields))


_open_renderers: "weakref.WeakSet[SceneRenderer]" = weakref.WeakSet()


def _close_renderers() -> None:
    """Free drawing contexts while the interpreter is whole: later their finalisers print errors."""
    for renderer in list(_open_renderers):
        renderer.close()


class SceneRenderer:
    """Draws a model's cameras, each at its own size, all with one drawing context.

    fast: no shadows, reflections or multisampling; exact: as the model is set.
    The context is made at the first frame, so an environment whose images are never read costs
    nothing.
    """

    def __init__(self, model: Any, cameras: Mapping[str, Size], quality: str) -> None:
        check_choice("quality", quality, ("fast", "exact"))
        self.cameras = dict(cameras)
        self.frame_count = 0
        self._quality = quality
        self._model = model
        self._camera_ids = {}
        known = [model.camera(i).name for i in range(model.ncam)]
        for name in cameras:
            if name not in known:
                raise UserError(f"camera {name!r} is unknown; this task has {', '.join(known)}")
            self._camera_ids[name] = known.index(name)
        self._mujoco = import_mujoco()
        self._gl: Any = None
        self._closed = False

    @property
    def model(self) -> Any:
        """The model that is drawn, a copy: changing it does not change the physics."""
        return self._model

    def render(
        self, camera: str, pose: Pose, dressing: Dressing | None = None
    ) -> UInt8[np.ndarray, "h w 3"]:
        """Draw one camera's upright image of the pose: uint8 RGB (h, w, 3)."""
        if self._closed:
            raise RuntimeError(f"camera {camera} was read after its environment was closed")
        if self._gl is None:
            self._open()
        mujoco = self._mujoco
        self._gl.make_current()
        for field, values in pose._asdict().items():
            getattr(self._data, field)[:] = values
        height, width = self.cameras[camera]
        self._view.fixedcamid = self._camera_ids[camera]
        with nullcontext() if dressing is None else dressing.dress(self._model):
            if dressing is not None:
                dressing.move_cameras(self._data)
            mujoco.mjv_updateScene(
                self._model,
                self._data,
                self._option,
                None,
                self._view,
                mujoco.mjtCatBit.mjCAT_ALL,
                self._scene,
            )
        if dressing is not None:
            dressing.add_distractors(self._scene)
        area = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(area, self._scene, self._context)
        image = np.empty((height, width, 3), np.uint8)
        mujoco.mjr_readPixels(image, None, area, self._context)
        self.frame_count += 1
        # OpenGL's first row is the lowest; a camera mounted upside down is turned by 180 degrees.
        up = self._data.cam_xmat[self._view.fixedcamid].reshape(3, 3)[2, 1]
        return np.ascontiguousarray(image[:, ::-1] if up < -1e-3 else image[::-1])

    def close(self) -> None:
        """Free the drawing context; later frames are refused."""
        if self._gl is not None:
            self._gl.make_current()
            self._context.free()
            self._gl.free()
            self._gl = None
            _open_renderers.discard(self)
        self._closed = True

    def _open(self) -> None:
        mujoco = self._mujoco
        model = self._model
        model.vis.global_.offheight = max(height for height, _ in self.cameras.values())
        model.vis.global_.offwidth = max(width for _, width in self.cameras.values())
        self._data = mujoco.MjData(model)
        self._option = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._scene = mujoco.MjvScene(model, 1000)
        if self._quality == "fast":
            model.vis.quality.offsamples = 0
            self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
            self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._gl, self._context = self._drawing_context()
        if not _open_renderers:  # registered after EGL's own exit handler, so it runs before it
            atexit.unregister(_close_renderers)
            atexit.register(_close_renderers)
        _open_renderers.add(self)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)

    def _drawing_context(self) -> tuple[Any, Any]:
        size = self._model.vis.global_
        backend = choose_gl_backend()
        module = backend if backend in ("egl", "osmesa", "cgl") else "glfw"
        try:
            gl = importlib.import_module(f"mujoco.{module}").GLContext(
                size.offwidth, size.offheight
            )
            gl.make_current()
            font = self._mujoco.mjtFontScale.mjFONTSCALE_100.value
            return gl, self._mujoco.MjrContext(self._model, font)
        except Exception as error:  # each backend has its own kinds
            if "framebuffer" in str(error):
                sizes = ", ".join(f"{name} {h}x{w}" for name, (h, w) in self.cameras.items())
                raise UserError(
                    f"images of this size cannot be drawn ({error}): {sizes}; ask for smaller ones"
                ) from error
            raise UserError(_does_not_work(backend, error)) from error
