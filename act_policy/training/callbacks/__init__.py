"""Callbacks of the Lightning trainer: checkpoints, progress, signals and the report."""
