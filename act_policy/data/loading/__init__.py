"""Batches for training; the only part of `data` that imports torch."""
