"""Policies as files: bundle and ONNX, each proven equal to the trained policy."""
