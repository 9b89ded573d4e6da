"""Demonstrations converted from one format to another, and checked."""
