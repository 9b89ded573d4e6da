"""Faults on a fake robot, driven through the real commands: what the motors were sent, and when.

`fake_robots` is the robot, `drive` runs a command on it.
"""
