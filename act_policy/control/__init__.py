"""The code that runs on a robot: numpy and onnxruntime, no torch.

A policy (`policies`) predicts chunks, and an executor (`chunks`) makes single actions of them:
`executor` where the world waits, `asynchronous` where it does not and each chunk is blended into
the next. `robots/contract` binds names; `safety/supervisor` lets a command pass within the limits
or latches a fault and holds the arm. `loop` does all of it once per tick, and
`python -m act_policy.control` runs it (`commands`).
"""
