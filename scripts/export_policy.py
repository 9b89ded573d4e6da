"""Export a policy for a robot: a bundle, an ONNX file, and the proof that they agree.

    python scripts/export_policy.py checkpoint=RUN out=FOLDER
    python scripts/export_policy.py checkpoint=RUN format=[onnx] out=FOLDER

checkpoint is a run folder, a checkpoint file or a bundle. Writes config.json, schema.json and
model.safetensors (the bundle), policy.onnx, and parity.json with each format's largest error and
latency; nothing if one of them does not predict what the policy predicts.
"""

from pathlib import Path
from typing import Any


def main(config: Any) -> None:
    """Load, export, verify, and say how far apart they are."""
    from act_policy.export.export import check_formats, export_policy
    from act_policy.model.policy import ACTPolicy

    formats = [config.format] if isinstance(config.format, str) else list(config.format or [])
    check_formats(formats)
    policy = ACTPolicy.load(Path(config.checkpoint))
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
