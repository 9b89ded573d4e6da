"""Policies as files: bundle, ONNX and other software's checkpoints, proven equal."""
