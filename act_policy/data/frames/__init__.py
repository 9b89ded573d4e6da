"""Decoded camera frames: cached on disk, or decoded when they are needed."""
