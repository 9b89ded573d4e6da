"""LeRobotDataset folders (v2.1 and v3.0), read and written."""
