"""ALOHA's two bimanual tasks, and two scripted teachers for each: ours and the original's."""
