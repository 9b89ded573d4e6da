"""Export a policy for a robot: a bundle, an ONNX file, and the proof that they agree.

    python scripts/export_policy.py checkpoint=RUN out=FOLDER
    python scripts/export_policy.py checkpoint=RUN format=[onnx,lerobot] out=FOLDER

checkpoint is a run folder, a checkpoint file, a bundle, a LeRobot checkpoint or a folder of the
original ACT. Writes config.json, schema.json and model.safetensors (the bundle), policy.onnx,
lerobot/ (a checkpoint for LeRobot), and parity.json with each format's largest error and latency;
nothing if one of them does not predict what the policy predicts. A folder of the original ACT needs
source.cameras=[top,wrist] source.image_size=[480,640] too.
"""

from pathlib import Path
from typing import Any


def main(config: Any) -> None:
    """Load, export, verify, and say how far apart they are."""
    from act_policy.export.export import check_formats, export_policy
    from act_policy.export.kinds import Source
    from act_policy.export.load import load_policy

    formats = [config.format] if isinstance(config.format, str) else list(config.format or [])
    check_formats(formats)
    policy = load_policy(Path(config.checkpoint), Source.from_settings(config.source))
    out = Path(config.out)
    print(f"exporting {config.checkpoint} as {', '.join(formats)}")
    report = export_policy(policy, out, formats)
    print(f"{'':<8}{'largest error':>16}{'latency, ms':>14}")
    print(f"{'eager':<8}{'':>16}{report['eager_latency_ms']:>14.1f}")
    for name, parity in report["formats"].items():
        error = f"{parity['largest_error_in_std']:.1e} std"
        print(f"{name:<8}{error:>16}{parity['latency_ms']:>14.1f}")
    print(f"wrote {out}: {', '.join(sorted(path.name for path in out.iterdir()))}")


if __name__ == "__main__":
    from entry import run

    run("export_policy", main)
