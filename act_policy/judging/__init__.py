"""Which policy is better, and how sure one may be: functions on numbers alone."""
