"""What a robot imports: numpy and onnxruntime, no torch.

A policy (`onnx_policy`, or `inference_process` around it) predicts chunks; an executor makes
single actions of them (`executor` where the world waits, `asynchronous` where it does not);
`contract` binds names; `safety` and `limits` let a command pass or hold the arm; `loop` turns it
all once a tick, and `python -m act_policy.control` runs it.
"""
