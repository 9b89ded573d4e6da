"""Versions of the software that produced a result, to be stored with it."""

import platform
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "act_policy",
    "gym-aloha",
    "gymnasium",
    "h5py",
    "lightning",
    "metaworld",
    "mujoco",
    "numpy",
    "onnxruntime",
    "torch",
    "torchvision",
)


def versions() -> dict[str, object]:
    """Return time, command, Python, machine, all installed packages, and the commit."""
    found: dict[str, object] = {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    checkout = Path(__file__).parents[2]
    if (checkout / ".git").exists():  # else git describes whatever repository holds the environment
        describe = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
        with suppress(OSError, subprocess.CalledProcessError):  # no git on this machine
            found["commit"] = subprocess.check_output(
                describe, stderr=subprocess.DEVNULL, text=True
            ).strip()
    return found
