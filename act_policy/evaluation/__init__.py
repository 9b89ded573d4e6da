"""Rollouts in simulation, open-loop errors, success statistics, reports, videos."""
