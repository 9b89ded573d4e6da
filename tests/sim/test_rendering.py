"""Images: drawn only when read, of the right moment and size, upright; the GL backend."""

import copy
import os
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from act_policy.errors import UserError
from act_policy.sim import environment_id, rendering

UP = np.array([0, 0, 1, 0], np.float32)
FORWARD = np.array([0, 1, 1, 0], np.float32)


def test_images_that_nobody_reads_are_not_drawn(make):
    environment = make(cameras={"topview": (24, 32), "corner3": (16, 16)})
    observation, _ = environment.reset(seed=0)
    for _ in range(5):
        observation, *_ = environment.step(UP)
        assert set(observation["pixels"]) == {"topview", "corner3"}
        assert "topview" in observation["pixels"]
        assert len(observation["pixels"]) == 2
    assert environment.frame_count == 0


def test_a_image_is_drawn_once_and_alone(make):
    environment = make(cameras={"topview": (24, 32), "corner3": (16, 16)})
    observation, _ = environment.reset(seed=0)
    first = observation["pixels"]["topview"]
    assert environment.frame_count == 1
    assert observation["pixels"]["topview"] is first
    assert observation["pixels"].get("topview") is first
    assert observation["pixels"].get("absent") is None
    assert environment.frame_count == 1
    assert first.shape == (24, 32, 3)
    assert first.dtype == np.uint8
    assert observation["pixels"]["corner3"].shape == (16, 16, 3)
    assert environment.frame_count == 2
    with pytest.raises(KeyError):
        observation["pixels"]["corner2"]


@pytest.mark.parametrize(
    "read",
    [
        dict,
        lambda images: {**images},
        lambda images: dict(images.items()),
        lambda images: dict(zip(images, images.values(), strict=True)),
        lambda images: images.copy(),
        copy.deepcopy,
        lambda images: pickle.loads(pickle.dumps(images)),
    ],
    ids=["dict", "unpacking", "items", "values", "copy", "deepcopy", "pickle"],
)
def test_every_way_of_reading_gives_the_images(make, read):
    environment = make(cameras={"topview": (24, 32), "corner3": (16, 16)})
    observation, _ = environment.reset(seed=0)
    images = read(observation["pixels"])
    assert list(images) == ["topview", "corner3"]
    for name in images:
        np.testing.assert_array_equal(images[name], observation["pixels"][name])


def test_a_late_read_shows_the_moment_of_its_observation(make):
    late, prompt = (make(cameras={"corner3": (64, 64)}) for _ in range(2))
    observations = [late.reset(seed=0)[0]]
    images = [prompt.reset(seed=0)[0]["pixels"]["corner3"]]
    for _ in range(12):
        observations.append(late.step(FORWARD)[0])
        images.append(prompt.step(FORWARD)[0]["pixels"]["corner3"])
    late.reset(seed=1)
    for index in (12, 0, 6):
        np.testing.assert_array_equal(observations[index]["pixels"]["corner3"], images[index])
    assert (images[0] != images[12]).any()


def test_the_first_image_shows_the_goal_of_this_initial_state(make):
    environment = make("reach", cameras={"topview": (64, 64)})
    images = []
    for seed in (0, 1, 0):
        first = environment.reset(seed=seed)[0]["pixels"]["topview"]
        environment.step(np.zeros(4, np.float32))
        again = environment.reset(seed=seed)[0]["pixels"]["topview"]
        np.testing.assert_array_equal(first, again)
        images.append(first)
    np.testing.assert_array_equal(images[0], images[2])
    assert (images[0] != images[1]).any()


def test_environments_of_one_process_do_not_disturb_each_other(make):
    small = make(cameras={"topview": (20, 20)})
    large = make("door-open", cameras={"topview": (60, 40)})
    alone = small.reset(seed=0)[0]["pixels"]["topview"]
    large.reset(seed=0)[0]["pixels"]["topview"]
    np.testing.assert_array_equal(small.reset(seed=0)[0]["pixels"]["topview"], alone)
    large.close()
    np.testing.assert_array_equal(small.reset(seed=0)[0]["pixels"]["topview"], alone)


@pytest.mark.parametrize("camera", ["corner", "corner2", "corner3", "corner4"])
def test_images_are_upright(make, camera):
    """A hand that goes up goes up in the image: what changed lies above what was."""
    environment = make(cameras={camera: (128, 128)})
    before = environment.reset(seed=0)[0]["pixels"][camera].astype(int)
    for _ in range(14):
        after = environment.step(UP)[0]["pixels"][camera].astype(int)
    finger = np.array([0, 200, 200])  # one finger is cyan, seen from every corner

    def height(image):
        rows = np.nonzero(np.abs(image - finger).sum(2) < 130)[0]
        assert len(rows), "the cyan finger is not in the image"
        return rows.mean()

    assert height(after) < height(before) - 2


def test_the_top_view_has_the_robot_below_and_the_button_above(make):
    image = make(cameras={"topview": (84, 84)}).reset(seed=0)[0]["pixels"]["topview"].astype(int)
    yellow = (image[..., 0] > 150) & (image[..., 1] > 110) & (image[..., 2] < 60)
    rows, columns = np.nonzero(yellow)
    assert rows.mean() < 30
    # the button is 2.7 cm to the right of the middle, at 0.84 pixels a centimetre
    assert columns.mean() == pytest.approx(42 + 2.7 * 0.84, abs=1.5)


def test_fast_images_look_like_exact_ones(make):
    fast, exact = (
        make(cameras={"corner3": (84, 84)}, quality=quality).reset(seed=0)[0]["pixels"]["corner3"]
        for quality in ("fast", "exact")
    )
    # the light that casts the shadows also makes the rest brighter
    assert 2 < np.abs(fast.astype(int) - exact).mean() < 20
    assert np.corrcoef(fast.ravel(), exact.ravel())[0, 1] > 0.9


def test_render_gives_the_first_camera(make):
    environment = make(cameras={"topview": (24, 32)}, render_mode="rgb_array")
    observation, _ = environment.reset(seed=0)
    np.testing.assert_array_equal(environment.render(), observation["pixels"]["topview"])


def test_a_read_after_closing_is_an_error():
    environment = gymnasium.make(
        environment_id("button-press-topdown"), cameras={"topview": (16, 16)}
    )
    observation, _ = environment.reset(seed=0)
    environment.close()
    with pytest.raises(RuntimeError, match="after its environment was closed"):
        observation["pixels"]["topview"]


@pytest.fixture
def no_backend_named(monkeypatch):
    """The choice is made afresh, without a display."""
    monkeypatch.setenv("MUJOCO_GL", "")  # so that monkeypatch restores what the choice sets
    monkeypatch.delenv("DISPLAY", raising=False)
    return monkeypatch


def test_a_named_backend_is_not_questioned(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "OSMesa")
    monkeypatch.setattr(rendering, "probe_gl_backend", lambda name: pytest.fail("probed"))
    assert rendering.choose_gl_backend() == "osmesa"


def test_the_first_backend_that_works_is_taken_and_named_once(no_backend_named, capsys):
    tried = []

    def probe(backend):
        tried.append(backend)
        return None if backend == "osmesa" else "no such library"

    no_backend_named.setattr(rendering, "probe_gl_backend", probe)
    assert rendering.choose_gl_backend() == "osmesa"
    assert rendering.choose_gl_backend() == "osmesa"
    assert tried == ["egl", "osmesa"]
    assert capsys.readouterr().err == "rendering with MUJOCO_GL=osmesa\n"


@pytest.mark.parametrize("display", [None, ":0"])
def test_without_any_backend_the_message_says_what_to_install(no_backend_named, display):
    no_backend_named.setattr(rendering, "probe_gl_backend", lambda backend: f"{backend} is broken")
    if display:
        no_backend_named.setenv("DISPLAY", display)
    with pytest.raises(UserError) as error:
        rendering.choose_gl_backend()
    message = str(error.value)
    assert "egl: egl is broken" in message
    assert "osmesa: osmesa is broken" in message
    assert "apt-get install libegl1" in message
    assert ("glfw: glfw is broken" in message) == bool(display)


def test_a_probe_tells_what_is_wrong(no_backend_named):
    assert "invalid value" in (rendering.probe_gl_backend("nonsense") or "")
    no_backend_named.setattr(rendering, "PROBE", "import time; time.sleep(60)")
    assert rendering.probe_gl_backend("egl", seconds=0.2) == "no answer within 0.2 s"
    no_backend_named.setattr(rendering, "PROBE", "import os; os.kill(os.getpid(), 11)")
    assert rendering.probe_gl_backend("egl") == "ended with code -11"


@pytest.mark.parametrize("backend", ["bogus", "osmesa"])
def test_a_named_backend_that_does_not_work_is_blamed(backend):
    if backend == "osmesa" and rendering.probe_gl_backend(backend) is None:
        pytest.skip("OSMesa is installed here")
    code = (
        "import gymnasium, act_policy.sim\n"
        "from act_policy.errors import UserError\n"
        "try:\n"
        f"    env = gymnasium.make('{environment_id('button-press-topdown')}')\n"
        "    env.reset(seed=0)[0]['pixels']['corner2']\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.startswith(f"MUJOCO_GL={backend} does not work here (")
    assert "unset MUJOCO_GL" in out.stdout
    assert out.stderr == ""


def test_leaving_without_closing_is_quiet():
    code = (
        "import gymnasium, act_policy.sim\n"
        f"env = gymnasium.make('{environment_id('button-press-topdown')}')\n"
        "env.reset(seed=0)[0]['pixels']['corner2']\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout == ""
    assert [line for line in out.stderr.splitlines() if "MUJOCO_GL" not in line] == []


IMPORT_ALL = """
import importlib, os, pkgutil, sys
import act_policy.sim
for module in pkgutil.iter_modules(act_policy.sim.__path__):
    importlib.import_module(f"act_policy.sim.{module.name}")
simulators = [name for name in ("mujoco", "metaworld", "OpenGL") if name in sys.modules]
print(simulators, os.environ.get("MUJOCO_GL"))
"""


def test_importing_the_package_touches_neither_the_simulator_nor_a_graphics_driver():
    environment = {key: value for key, value in os.environ.items() if key != "MUJOCO_GL"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, env=environment
    )
    assert (done.stdout, done.stderr) == ("[] None\n", "")
