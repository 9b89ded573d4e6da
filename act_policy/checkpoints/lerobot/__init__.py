"""LeRobot's ACT checkpoints, in and out."""
