"""Limits, faults and the operator, between a policy and the motors."""
