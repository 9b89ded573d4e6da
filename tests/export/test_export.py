"""The export script: what it writes agrees, and what does not agree is not written.

torch.export cannot trace through the import hook of the test session, so the script runs in a
process of its own, as a user runs it.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.control.policies.onnx_policy import OnnxPolicy
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.export import export as export_module
from act_policy.export.export import ONNX_FILES, ExportConfig, export_policy
from act_policy.export.parity import ParityError, measure_parity, random_observation
from act_policy.export.policy_package import PackagePolicy
from act_policy.export.pt2 import Pt2Policy
from act_policy.model.policy import ACTPolicy
from act_policy.types import Observation
from tests.export.export_for_tests import LARGEST_ACTION, export_everything, make_policy, run_script
from tests.tolerance import network_rounding

LONGEST_PATH = 1000
"""Terms summed from image to action: five convolutions of 144, then sums of 16 to 24."""
TOLERANCE_IN_STD = network_rounding(LONGEST_PATH, LARGEST_ACTION)


@pytest.fixture(scope="module")
def policy() -> ACTPolicy:
    made = make_policy()
    made.execution = Execution(3, reason="tuned")
    return made


@pytest.fixture(scope="module")
def exported(policy: ACTPolicy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    result = export_everything(policy, folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert len(result.stdout.splitlines()) < 12
    return folder / "out"


def test_files(exported: Path) -> None:
    assert sorted(path.name for path in exported.iterdir()) == [
        "config.json",
        "model.safetensors",
        "parity.json",
        "policy.onnx",
        "policy.pt2",
        "policy_fp16.onnx",
        "policy_int8.onnx",
        "policy_package",
        "schema.json",
    ]
    report = json.loads((exported / "parity.json").read_text())
    for name in ("bundle", "onnx", "pt2", "policy_package"):
        assert report["formats"][name]["largest_error_in_std"] <= TOLERANCE_IN_STD
        assert report["formats"][name]["latency_ms"] > 0
    for name in ("onnx_fp16", "onnx_int8"):
        measured = report["formats"][name]
        assert 1e-5 < measured["mean_error_in_std"] < measured["largest_error_in_std"] <= 0.1
    assert report["batch_sizes"] == [1, 3, 5]


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8])
def test_every_format_says_what_the_policy_says(
    exported: Path, policy: ACTPolicy, batch: int
) -> None:
    observation = random_observation(policy, batch, np.random.default_rng(batch))
    expected = policy.predict_chunk(observation)
    scale = policy.statistics.scale(policy.statistics.action)
    for found in (
        OnnxPolicy(exported / "policy.onnx", threads=1),
        Pt2Policy(exported / "policy.pt2"),
        PackagePolicy(exported / "policy_package"),
    ):
        chunk = found.predict_chunk(observation)
        assert chunk.shape == (batch, 4, 3)
        assert (np.abs(chunk - expected) / scale).max() <= TOLERANCE_IN_STD
    for file in ("policy_fp16.onnx", "policy_int8.onnx"):
        chunk = OnnxPolicy(exported / file, threads=1).predict_chunk(observation)
        assert 0 < (np.abs(chunk - expected) / scale).max() <= 0.1
    # Not by accident: other observations give other actions.
    other = random_observation(policy, batch, np.random.default_rng(100))
    assert (np.abs(policy.predict_chunk(other) - expected) / scale).max() > 1e-2


def test_one_observation_without_a_batch(exported: Path, policy: ACTPolicy) -> None:
    batch = random_observation(policy, 1, np.random.default_rng(0))
    images = {name: image[0][:, ::-1] for name, image in batch.images.items()}  # a view, reversed
    keys = {f"observation.images.{name}": image for name, image in images.items()}
    keys["observation.state"] = batch.state[0].astype(np.float64)
    keys["observation.environment_state"] = batch.environment_state[0]
    expected = policy.predict_chunk(keys)
    program = Pt2Policy(exported / "policy.pt2")
    assert (program.schema, program.chunk_length) == (policy.schema, 4)
    tolerance = network_rounding(LONGEST_PATH, np.abs(expected).max())
    np.testing.assert_allclose(program.predict_chunk(keys), expected, rtol=0, atol=tolerance)
    with pytest.raises(UserError, match="cameras differ"):
        program.predict_chunk({k: v for k, v in keys.items() if "top" not in k})


def test_smaller_files(exported: Path) -> None:
    sizes = {name: (exported / file).stat().st_size for name, file in ONNX_FILES.items()}
    assert max(sizes["fp16"], sizes["int8"]) < sizes["fp32"]
    for name, file in ONNX_FILES.items():
        assert OnnxPolicy(exported / file).metadata["precision"] == name


def test_int8_is_right_on_processors_that_add_products_in_16_bits(exported: Path) -> None:
    """Two products of a weight and an activation of 255 fit: weights are at most 64."""
    model = onnx.load(exported / ONNX_FILES["int8"])
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
    quantised = [weight for weight in weights if weight.dtype == np.int8 and weight.ndim > 1]
    assert len(quantised) > 10
    assert max(np.abs(weight.astype(int)).max() for weight in quantised) <= 64


def test_old_runtimes_can_run_every_onnx_file(exported: Path) -> None:
    """Opset 17 and IR version 8 are onnxruntime 1.12's; int8 adds no other operators."""
    for file in (*ONNX_FILES.values(), "policy_package/act.onnx"):
        model = onnx.load(exported / file)
        domains = {entry.domain: entry.version for entry in model.opset_import}
        assert (file, model.ir_version, domains[""]) == (file, 8, 17)
        used = {node.domain for node in model.graph.node}
        assert used <= {"", "ai.onnx", "com.microsoft"}


def test_a_broken_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy.pt2").write_bytes(b"not an archive")
    with pytest.raises(UserError, match=r"policy\.pt2 cannot be read as an exported"):
        Pt2Policy(tmp_path / "policy.pt2")


def test_onnx_names_types_and_metadata(exported: Path, policy: ACTPolicy) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(exported / "policy.onnx")
    inputs = {node.name: (node.type, node.shape) for node in session.get_inputs()}
    assert inputs == {
        "observation.images.top": ("tensor(uint8)", ["b", 32, 48, 3]),
        "observation.images.left": ("tensor(uint8)", ["b", 24, 24, 3]),
        "observation.images.right": ("tensor(uint8)", ["b", 24, 24, 3]),
        "observation.state": ("tensor(float)", ["b", 2]),
        "observation.environment_state": ("tensor(float)", ["b", 1]),
    }
    (output,) = session.get_outputs()
    assert (output.name, output.type, output.shape) == ("action", "tensor(float)", ["b", 4, 3])
    found = OnnxPolicy(exported / "policy.onnx")
    assert found.schema == policy.schema
    assert found.chunk_length == 4
    assert found.metadata["format_version"] == "1"
    ranges = DemonstratedRanges.from_statistics(policy.schema, found.statistics)
    np.testing.assert_array_equal(ranges.action_low, policy.statistics.action.min)
    np.testing.assert_array_equal(ranges.state_high, policy.statistics.state.max)
    int8, pt2 = OnnxPolicy(exported / "policy_int8.onnx"), Pt2Policy(exported / "policy.pt2")
    for program in (found, int8, pt2):
        assert program.execution == policy.execution
    manifest = json.loads((exported / "policy_package" / "manifest.json").read_text())
    assert manifest["act_policy"]["execution"] == policy.execution.to_dict()


def test_cameras_are_bound_by_name(exported: Path, policy: ACTPolicy) -> None:
    """Two cameras of one size, exchanged: another chunk, and the same as the policy's."""
    program = OnnxPolicy(exported / "policy.onnx")
    observation = random_observation(policy, 1, np.random.default_rng(0))
    images = dict(observation.images)
    images["left"], images["right"] = images["right"], images["left"]
    swapped = observation._replace(images=images)
    expected, found = policy.predict_chunk(swapped), program.predict_chunk(swapped)
    tolerance = network_rounding(LONGEST_PATH, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    assert np.abs(program.predict_chunk(observation) - found).max() > 3 * tolerance


@pytest.mark.slow
def test_wrong_arguments(tmp_path: Path) -> None:
    result = run_script(f"checkpoint={tmp_path / 'absent'}", f"out={tmp_path}")
    assert result.returncode == 2, result.stderr
    assert "absent does not exist" in result.stderr
    assert "Traceback" not in result.stderr
    assert not any(tmp_path.iterdir())
    for formats, precisions, more, message in (
        ([], ["fp32"], {}, "expected some of bundle, onnx"),
        (["bundle", "tflite"], ["fp32"], {}, "expected some of bundle, onnx"),
        (["onnx"], ["int4"], {}, "expected some of fp32, fp16, int8"),
        (["pt2"], ["int8"], {}, "name onnx in format="),
        (["onnx"], ["int8"], {"max_error": 0.0}, "positive number"),
        (["onnx"], ["fp32"], {"opset": 16}, "opset is 16; expected 17 to 20"),
    ):
        with pytest.raises(UserError, match=message):
            ExportConfig(formats, precisions, **more)


def test_a_precision_that_costs_too_much_is_refused(
    policy: ACTPolicy, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        export_module,
        "export_onnx",
        lambda policy, path, opset: shutil.copyfile(exported / "policy.onnx", path),
    )
    settings = ExportConfig(("bundle", "onnx"), ("fp32", "int8"), max_error=1e-6)
    with pytest.raises(
        UserError,
        match=r"precision=int8 is refused, nothing was written: onnx_int8: action \w+ differs by "
        r".* at most 1e-06 is allowed; leave int8 out of precision=, or .*max_error=",
    ):
        export_policy(policy, tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


class Shifted:
    """A policy whose second action is a little off."""

    def __init__(self, policy: ACTPolicy, stds: float) -> None:
        self.policy = policy
        self.offset = np.zeros(3, dtype=np.float32)
        self.offset[1] = 0.05 * stds

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        return self.policy.predict_chunk(observation) + self.offset


def test_parity_is_per_dimension_in_standard_deviations(policy: ACTPolicy) -> None:
    measured = measure_parity(policy, Shifted(policy, 5e-5).predict_chunk, "close")
    assert 4e-5 < measured.largest_error_in_std < 7e-5
    # 5e-4 of the small dimension is far below 1e-4 of the large one: it must still be seen
    with pytest.raises(ParityError, match=r"dy differs by 5\.\d+e-04"):
        measure_parity(policy, Shifted(policy, 5e-4).predict_chunk, "far")
    with pytest.raises(ParityError, match="dy differs by nan"):
        measure_parity(policy, Shifted(policy, np.nan).predict_chunk, "lost")


def test_a_format_of_an_earlier_export_never_stays_beside_another_policy(
    policy: ACTPolicy, tmp_path: Path
) -> None:
    export_policy(policy, tmp_path, ExportConfig(("bundle",)))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=r"holds an exported bundle \(config.json\).*format="):
        export_policy(make_policy(), tmp_path, ExportConfig(("onnx",)))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("existed", [True, False])
def test_a_policy_that_differs_is_not_written(
    existed: bool, policy: ACTPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    if existed:
        out.mkdir()
        (out / "parity.json").write_text("earlier")
    monkeypatch.setattr(export_module, "export_onnx", lambda policy, path, opset: path.touch())
    monkeypatch.setattr(export_module, "OnnxPolicy", lambda path: Shifted(policy, 1.0))
    with pytest.raises(ParityError):
        export_policy(policy, out, ExportConfig(("bundle", "onnx")))
    if existed:
        assert [path.name for path in out.iterdir()] == ["parity.json"]
        assert (out / "parity.json").read_text() == "earlier"
    else:
        assert not out.exists()


def test_a_full_disk_is_said_and_leaves_nothing(
    policy: ACTPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left"):
        export_policy(policy, tmp_path / "out", ExportConfig(("bundle",)))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "opset"),
    [
        ({"backbone_norm": "frozen_batch", "pre_norm": False, "camera_embedding": False}, 17),
        (
            {"backbone_norm": "batch", "latent_size": 0, "latent_layers": 0, "activation": "gelu"},
            17,
        ),
        ({"activation": "gelu"}, 20),
        ({"backbone": "resnet50", "backbone_stages": 4}, 17),
    ],
)
def test_every_kind_of_network_exports(
    fields: dict[str, object], opset: int, tmp_path: Path
) -> None:
    make_policy(False, **fields).save(tmp_path / "bundle")
    settings = ["format=[onnx]", f"opset={opset}"]
    result = run_script(f"checkpoint={tmp_path / 'bundle'}", f"out={tmp_path}", *settings)
    assert result.returncode == 0, result.stderr
    model = onnx.load(tmp_path / "policy.onnx")
    assert (model.opset_import[0].version, model.ir_version) == {17: (17, 8), 20: (20, 9)}[opset]


@pytest.mark.slow
def test_relative_actions_leave_onnx_as_absolute_ones(tmp_path: Path) -> None:
    policy = make_policy(environment_state=False)
    schema = replace(policy.schema, action_names=("x", "dy", "gripper"))
    kinds = ("position", "displacement", "")
    statistics = policy.statistics._replace(relative_actions=("x",), action_kinds=kinds)
    relative = ACTPolicy(policy.config, schema, statistics).eval()
    relative.load_state_dict(policy.state_dict())
    relative.save(tmp_path / "bundle")
    result = run_script(f"checkpoint={tmp_path / 'bundle'}", f"out={tmp_path / 'out'}")
    assert result.returncode == 0, result.stderr
    program = OnnxPolicy(tmp_path / "out" / "policy.onnx", threads=1)
    assert program.statistics is not None
    assert program.statistics.action_kinds == kinds
    observation = random_observation(policy, 3, np.random.default_rng(0))
    found = program.predict_chunk(observation)
    expected = policy.predict_chunk(observation)  # absolute, with the same weights
    expected[..., 0] += observation.state[:, None, 0]
    scale = statistics.scale(statistics.action)
    assert (np.abs(found - expected) / scale).max() <= 1e-3
