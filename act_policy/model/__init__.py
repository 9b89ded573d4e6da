"""The network alone; it knows nothing of files, simulators or trainers.

To be read in this order, each file standing on those before it:

    attention   softmax(query key^T / sqrt(e)) value, in several heads
    block       attention, feed-forward and norms: the encoder, its blocks, and the decoder's
    positions   sines and cosines that say where a token comes from
    backbone    ResNet: an image becomes a map of tokens
    config      the numbers that fix a network
    latent      the CVAE's encoder: a demonstrated chunk becomes z
    act         all of them put together
    normalizer  between physical units and the network's
    policy      raw observation in, physical actions out
"""
