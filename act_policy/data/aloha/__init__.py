"""ALOHA's HDF5 episodes, read and written."""
