"""Video files by frame number: indexed, decoded, written."""
