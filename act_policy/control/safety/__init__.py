"""What stands between a policy and the motors: limits, faults, the operator."""
