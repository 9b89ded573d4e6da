"""`from act_policy import ...`: short names that cost nothing until they are used."""

import subprocess
import sys

import pytest

import act_policy

HEAVY = "{'numpy', 'torch', 'onnxruntime', 'h5py', 'gymnasium', 'hydra'}"


@pytest.mark.parametrize("name", act_policy.__all__)
def test_a_short_name_is_the_thing_itself(name: str) -> None:
    assert getattr(act_policy, name).__name__ == name


def test_the_package_loads_nothing_and_a_robots_names_no_torch() -> None:
    code = (
        f"import sys, act_policy; assert not {HEAVY} & set(sys.modules)\n"
        "from act_policy import ChunkExecutor, OnnxPolicy, RemotePolicy\n"
        "assert not {'torch', 'h5py', 'gymnasium', 'hydra'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'ActPolicy'"):
        act_policy.ActPolicy  # noqa: B018
