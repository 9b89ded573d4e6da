"""A wheel installed outside the checkout runs every command."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from act_policy.cli.commands import COMMANDS
from act_policy.data.aloha.episode import write_episode
from act_policy.types import Camera, Schema
from tests.paths import ROOT

SCHEMA = Schema((Camera("front", 16, 16),), ("x",), ("m",), ("x",), ("m",), rate=10.0)


class Installed(NamedTuple):
    """A command installed without the checkout, and the folder in which it is called."""

    command: Path
    folder: Path
    environment: dict[str, str]

    def call(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.command), *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=600,
        )

    def expect(self, *arguments: str) -> str:
        """Call, assert success, return the standard output."""
        done = self.call(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def pip(*arguments: str, python: str | Path = sys.executable) -> None:
    subprocess.run([str(python), "-m", "pip", *arguments, "--quiet"], check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build from a copy, since a build leaves files behind."""
    folder = tmp_path_factory.mktemp("build")
    for name in ("act_policy", "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", str(folder / "dist"), str(folder))
    (path,) = (folder / "dist").iterdir()
    return path


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Unpack into a separate folder, on top of the packages of this environment."""
    target = tmp_path_factory.mktemp("target")
    pip("install", "--no-deps", "--target", str(target), str(wheel))
    environment = os.environ | {"PYTHONPATH": str(target), "OMP_NUM_THREADS": "1"}
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    return Installed(target / "bin" / "act-policy", elsewhere, environment)


def write_demonstrations(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for episode in range(3):
        position = rng.normal(size=(6, 1)).astype(np.float32)
        images = {"front": rng.integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)}
        path = folder / f"episode_{episode:06}.hdf5"
        write_episode(path, SCHEMA, images, position, position, seed=episode)


def test_every_configuration_is_in_the_wheel(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".yaml")}
    configs = (ROOT / "configs").rglob("*.yaml")
    assert inside == {f"act_policy/{path.relative_to(ROOT)}" for path in configs}


def test_help_lists_the_commands(unpacked: Installed) -> None:
    text = unpacked.expect("--help")
    for name in (*COMMANDS, "robot"):
        assert f"\n  {name} " in text
    assert unpacked.expect() == text
    assert "experiment: act_paper" in unpacked.expect("train", "--help")


@pytest.mark.parametrize(("given", "near"), [("trian", "train"), ("robots", "robot")])
def test_an_unknown_command_exits_with_2_and_a_suggestion(
    unpacked: Installed, given: str, near: str
) -> None:
    done = unpacked.call(given, "out=run")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: unknown command {given} (did you mean {near}?)")


def test_trains_with_its_own_package_and_configurations(unpacked: Installed) -> None:
    package = unpacked.command.parents[1] / "act_policy"
    imported = subprocess.run(
        [sys.executable, "-c", "import act_policy; print(act_policy.__file__)"],
        cwd=unpacked.folder,
        env=unpacked.environment,
        capture_output=True,
        text=True,
    )
    assert imported.stdout.strip() == str(package / "__init__.py")
    experiments = package / "configs" / "experiment"  # one that is not in the checkout
    shutil.copy(experiments / "tiny.yaml", experiments / "unpacked.yaml")
    write_demonstrations(unpacked.folder)
    text = unpacked.expect("train", "experiment=unpacked", "data.path=.", "out=run", "max_steps=2")
    assert "trained 2 steps" in text
    assert (unpacked.folder / "run" / "checkpoints" / "best.ckpt").is_file()


def test_robot_loads_neither_torch_nor_hydra(unpacked: Installed) -> None:
    code = (
        "import sys; sys.argv = ['act-policy', 'robot', 'check', '--help']\n"
        "from act_policy.cli.commands import main\n"
        "try: main()\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert not {'torch', 'hydra', 'omegaconf', 'h5py'} & set(sys.modules)\n"
    )
    python = unpacked._replace(command=Path(sys.executable))
    assert python.expect("-c", code).startswith("usage: act-policy robot check")


@pytest.mark.slow  # minutes: torch and the simulators are installed
def test_every_command_works_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    bin_folder = tmp_path / "venv" / "bin"
    pip("install", f"{wheel}[train,sim]", python=bin_folder / "python")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    installed = Installed(bin_folder / "act-policy", tmp_path, environment)
    installed.expect("record", "task=metaworld/reach", "episodes=2", "out=demonstrations")
    installed.expect("inspect", "path=demonstrations")
    installed.expect("convert", "source=demonstrations", "out=lerobot", "format=lerobot_v3")
    installed.expect("train", "experiment=tiny", "data.path=demonstrations", "out=run")
    installed.expect("evaluate", "checkpoint=run", "mode=replay")
    installed.expect("export", "checkpoint=run", "format=[bundle,onnx]", "out=exported")
    done = installed.call("robot", "check", "--policy=exported/policy.onnx", "--robot=simulated")
    assert "nothing was sent; " in done.stdout  # a slow machine would not be ready
