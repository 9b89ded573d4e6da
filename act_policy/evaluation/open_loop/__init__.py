"""Predictions from demonstrated observations, compared with what was demonstrated; no simulator."""
