"""Names of the files of a LeRobot checkpoint."""

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"
PREPROCESSOR_FILE, POSTPROCESSOR_FILE = "policy_preprocessor.json", "policy_postprocessor.json"
NORMALIZER_FILE = "policy_preprocessor_step_3_normalizer_processor.safetensors"
UNNORMALIZER_FILE = "policy_postprocessor_step_0_unnormalizer_processor.safetensors"
SCHEMA_FILE = "schema.json"
"""Our own file beside LeRobot's: names, units and rate. LeRobot ignores it."""
