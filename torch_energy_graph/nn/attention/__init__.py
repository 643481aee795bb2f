"""All-pair attention: every node of a graph with every other."""

from .diffusion_attention import DiffusionAttention

__all__ = ['DiffusionAttention']
