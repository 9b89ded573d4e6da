"""Gymnasium environments, scripted experts, recording of demonstrations."""
