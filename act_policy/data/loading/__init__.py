"""Batches for training; the only room of `data` that knows torch."""
