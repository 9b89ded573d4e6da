"""Images scaled alike in training and on the robot, and their brightness."""
