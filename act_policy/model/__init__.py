"""The network, from attention up to the policy; knows nothing of files, simulators or trainers."""
