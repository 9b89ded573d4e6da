"""An exported policy without torch: onnxruntime and numpy."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.errors import UserError, check_choice, check_whole_number, located
from act_policy.execution import Execution
from act_policy.images.resize import fit_images
from act_policy.statistics import Statistics
from act_policy.types import (
    ACTION_KEY,
    ENVIRONMENT_STATE_KEY,
    IMAGE_PREFIX,
    PREFIX_KEY,
    STATE_KEY,
    TASK_KEY,
    Observation,
    Schema,
    check_prefix_length,
)

ONNX_FORMAT_VERSION = "1"
RUNTIMES = ("onnxruntime", "openvino")


class OnnxPolicy:
    """Run `policy.onnx`: raw observation in, physical actions out; normalisation is in the file.

    Args:
        path: the file that `export_policy.py` wrote.
        threads: of the CPU; None leaves the number to the runtime.
        runtime: "openvino" computes in bfloat16 on CPUs that have units for it (AMX), two to three
            times faster and with errors near 1e-2 standard deviations; elsewhere it gains nothing.

    Raises:
        UserError: the file cannot be read, or is not one that this project exported, or the
            runtime is not installed.
    """

    def __init__(self, path: str | Path, threads: int | None = None, runtime: str = "onnxruntime"):
        path = Path(path)
        check_choice("runtime", runtime, RUNTIMES)
        if not path.is_file():
            raise UserError(f"{path}: no such file; expected an exported policy.onnx")
        try:
            import onnxruntime  # here, so that the executor alone needs numpy only
        except ImportError:
            raise UserError(
                "onnxruntime is not installed; run `pip install '.[robot]'` in a checkout"
            ) from None

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # its hints on a default that may be overridden are no news
        if threads is not None:
            options.intra_op_num_threads = check_whole_number("threads", threads, 1)
            options.inter_op_num_threads = 1
        if runtime != "onnxruntime":  # then this session only reads the description
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            session = onnxruntime.InferenceSession(
                str(path), sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime has a class for each way a file can be broken
            said = str(error).strip()
            advice = (
                "; it needs a newer onnxruntime, or to be exported again with opset=17"
                if "IR version" in said or "opset" in said
                else ""
            )
            raise UserError(
                f"{path}: onnxruntime {onnxruntime.__version__} cannot load it: {said}{advice}"
            ) from None

        metadata = session.get_modelmeta().custom_metadata_map
        if "schema" not in metadata:
            raise UserError(
                f"{path}: its metadata has no schema (found {sorted(metadata)}); "
                f"export it with scripts/export_policy.py"
            )
        if (version := metadata.get("format_version")) != ONNX_FORMAT_VERSION:
            raise UserError(
                f"{path} has format version {version}, this act_policy reads "
                f"{ONNX_FORMAT_VERSION}; use the act_policy that exported it, or export it again"
            )
        self.metadata: dict[str, str] = dict(metadata)
        self.schema = Schema.from_dict(json.loads(metadata["schema"]))
        self.demonstration_seeds: tuple[int, ...] = tuple(
            json.loads(metadata.get("demonstration_seeds", "[]"))
        )
        with located(path):
            self.execution = Execution.from_dict(json.loads(metadata.get("execution", "null")))
        statistics = json.loads(metadata.get("statistics", "null"))
        self.statistics = Statistics.from_dict(statistics) if statistics else None
        # openvino takes an input that has a default for a constant
        known = 0 if runtime == "openvino" else int(metadata.get("prefix_length", 0))
        self.prefix_length: int = known
        self._inputs = input_names(self.schema)
        found = [node.name for node in session.get_inputs()]
        if set(found) != set(self._inputs):
            raise UserError(f"{path}: inputs {sorted(found)}, expected {sorted(self._inputs)}")
        outputs = {node.name: node.shape for node in session.get_outputs()}
        if ACTION_KEY not in outputs:
            raise UserError(f"{path}: outputs {sorted(outputs)}, expected {ACTION_KEY}")
        self.chunk_length = int(metadata.get("chunk_length", outputs[ACTION_KEY][1]))
        self._run: Callable[[dict[str, np.ndarray]], np.ndarray]
        if runtime == "openvino":
            self._run = _openvino_runner(path, threads)
        else:
            self._run = lambda values: session.run([ACTION_KEY], values)[0]

    def predict_chunk(
        self, observation: Observation[np.ndarray] | Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the chunk (k, a), or (b, k, a) for a batch of observations, in physical units.

        Raises:
            UserError: the observation is not what the schema says.
        """
        inputs, single = batched_inputs(self.schema, observation, self.prefix_length)
        actions = self._run(dict(zip([*self._inputs, PREFIX_KEY], inputs, strict=False)))
        chunk: np.ndarray = actions[0] if single else actions
        return chunk


def input_names(schema: Schema) -> list[str]:
    """List an exported policy's inputs in order: the schema's cameras, the vectors, the task.

    Committed actions, which have a default, are not among them.
    """
    names = [f"{IMAGE_PREFIX}{camera}" for camera in schema.camera_names]
    if schema.state_names:
        names.append(STATE_KEY)
    if schema.environment_state_names:
        names.append(ENVIRONMENT_STATE_KEY)
    if schema.chooses_task:
        names.append(TASK_KEY)
    return names


def batched_inputs(
    schema: Schema,
    observation: Observation[np.ndarray] | Mapping[str, Any],
    prefix_length: int = 0,
) -> tuple[list[np.ndarray], bool]:
    """Check an observation; return the inputs with a batch axis, and whether it had none.

    They stand in the order of `input_names`; committed actions come last, where there are any.
    Original frames of a single observation are cropped and scaled as in training.

    Raises:
        UserError: the observation is not what the schema says.
    """
    if isinstance(observation, Mapping):
        observation = Observation.from_keys(observation)
    observation = schema.check(fit_images(observation, schema))
    row = [np.ascontiguousarray(observation.images[name]) for name in schema.camera_names]
    if schema.state_names:
        row.append(observation.state)
    if observation.environment_state is not None:
        row.append(observation.environment_state)
    if observation.task is not None:
        row.append(observation.task)
    check_prefix_length(observation, prefix_length)
    if observation.prefix is not None:
        row.append(observation.prefix)
    single = np.ndim(observation.state) == 1
    return ([array[None] for array in row] if single else row), single


def _openvino_runner(
    path: Path, threads: int | None
) -> Callable[[dict[str, np.ndarray]], np.ndarray]:
    try:
        import openvino
    except ImportError:
        raise UserError(
            "openvino is not installed; run `pip install '.[robot,openvino]'` in a checkout"
        ) from None

    config: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    if threads is not None:
        config["INFERENCE_NUM_THREADS"] = threads
    compiled = openvino.compile_model(str(path), "CPU", config)

    def run(values: dict[str, np.ndarray]) -> np.ndarray:
        values = {name: np.ascontiguousarray(value) for name, value in values.items()}
        actions: np.ndarray = compiled(values)[ACTION_KEY].copy()  # its memory is used again
        return actions

    return run
