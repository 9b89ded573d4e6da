"""Policies that a robot asks: an ONNX file, a process of its own, a server."""
