"""Demonstrations: formats in and out, statistics, chunks, inspection, the Lightning DataModule."""
