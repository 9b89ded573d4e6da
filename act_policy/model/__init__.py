"""The network: attention, blocks, image encoder, latent, ACT, and the policy around it."""
