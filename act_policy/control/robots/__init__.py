"""What the loop needs of a robot, and an arm without hardware."""
