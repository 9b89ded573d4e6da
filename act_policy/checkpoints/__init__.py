"""Policies read from and written to files: ours, LeRobot's and the original ACT's."""
