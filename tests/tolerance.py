"""How far apart two floating-point results may be that are equal in exact arithmetic.

Processors add in different orders and with different vector widths. A tolerance therefore follows
from the number of roundings and the size of the numbers rounded. torch.testing.assert_close allows
1e-5 by default: enough for sums of up to 80 float32 terms whose sizes add up to 1.
"""

import math

import numpy as np

RESNET18 = 30_000
"""Terms summed from image to features in a ResNet-18: 9 per input channel of a 3x3 convolution."""


def rounding(terms: int, magnitude: float = 1.0, dtype: type = np.float32) -> float:
    """Largest difference between two sums of the same terms, in any two orders.

    Each of the two is off by at most terms * eps / 2 * magnitude. A product or a division counts as
    one more term.

    Args:
        terms: number of terms.
        magnitude: sum of the terms' absolute values; for a chain of operations, the largest value.
        dtype: floating-point type in which the sums are computed.
    """
    return terms * float(np.finfo(dtype).eps) * magnitude


def network_rounding(terms: int, magnitude: float = 1.0, dtype: type = np.float32) -> float:
    """Difference between two passes of one network that its roundings explain.

    The worst case of all roundings together never occurs: each is as likely up as down, with a
    standard deviation of eps / sqrt(12), so that two passes of n roundings differ by
    0.41 * sqrt(n) * eps. Five times that is allowed.

    Args:
        terms: number of terms on the longest path from input to output: over its layers, the sum of
            each layer's inputs per output.
        magnitude: largest absolute value among activations or outputs.
        dtype: floating-point type in which the network computes.
    """
    return 2 * math.sqrt(terms) * float(np.finfo(dtype).eps) * magnitude
