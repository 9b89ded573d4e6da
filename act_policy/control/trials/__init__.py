"""Trials of a policy on a robot: episodes that a person judges, and the number that they give."""
