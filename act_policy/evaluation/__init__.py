"""Rollouts in simulation, success statistics, videos."""
