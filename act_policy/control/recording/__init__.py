"""Runs on a robot kept as demonstrations, and safe from a crash."""
