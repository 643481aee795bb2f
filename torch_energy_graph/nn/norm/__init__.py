"""Normalisation layers that are gradients of a Lagrangian."""

from .energy_layer_norm import EnergyLayerNorm

__all__ = ['EnergyLayerNorm']
