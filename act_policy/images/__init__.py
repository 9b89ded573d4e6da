"""Scale images alike in training and on the robot, and measure their brightness."""
