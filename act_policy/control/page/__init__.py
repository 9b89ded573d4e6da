"""What a browser may see of a robot or a policy server."""
