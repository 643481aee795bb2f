"""Baselines of node classification: an MLP, a GCN, and a tuned GCN."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import dropout

from torch_geometric.data import Data
from torch_geometric.nn import GCN, MLP, GCNConv

from torch_energy_graph.bench.adjacency import symmetric_adjacency
from torch_energy_graph.bench.class_networks import (
    ClassParams,
    class_network,
)

__all__ = ['TunedGCN', 'gcn_cls', 'gcn_tuned', 'mlp_cls']


class TunedGCN(torch.nn.Module):
    r"""GCN with the options that classic networks need to be strong.

    After Luo, Shi and Wu, "Classic GNNs are Strong Baselines" (NeurIPS 2024):
    a layer is :math:`\mathrm{drop}(\mathrm{relu}(\mathrm{norm}(
    \hat A x W [+ x R])))`, and a linear map follows the last one. Edges are
    normalised by the caller.

    Args:
        in_channels (int): Features.
        hidden_channels (int): Width.
        out_channels (int): Classes.
        num_layers (int): Number of convolutions.
        dropout (float): Dropout.
        norm (str): 'batch', 'layer' or 'none'.
        residual (bool): Whether layers add a linear map of their input.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        num_layers: int,
        dropout: float,
        norm: str,
        residual: bool,
    ) -> None:
        super().__init__()
        kinds: dict[str, Callable[[int], torch.nn.Module]] = {
            'batch': torch.nn.BatchNorm1d,
            'layer': torch.nn.LayerNorm,
            'none': torch.nn.Identity,
        }
        widths = [in_channels, *[hidden_channels] * num_layers]
        pairs = list(itertools.pairwise(widths))
        self.convs = torch.nn.ModuleList(
            GCNConv(*pair, normalize=False) for pair in pairs
        )
        self.residuals = torch.nn.ModuleList(
            torch.nn.Linear(*pair) for pair in pairs if residual
        )
        self.norms = torch.nn.ModuleList(
            kinds[norm](width) for _, width in pairs
        )
        self.head = torch.nn.Linear(hidden_channels, out_channels)
        self.dropout = dropout

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits :math:`[N, C]`."""
        for i, (conv, norm) in enumerate(
            zip(self.convs, self.norms, strict=True)
        ):
            out = conv(x, edge_index)
            if self.residuals:
                out = out + self.residuals[i](x)
            x = dropout(norm(out).relu(), self.dropout, self.training)
        logits: Tensor = self.head(x)
        return logits


@dataclass(frozen=True)
class TunedGCNParams(ClassParams):
    """Parameters of ``gcn_tuned``, see :class:`TunedGCN`."""

    norm: Literal['batch', 'layer', 'none'] = 'none'
    residual: bool = False


def _sizes(data: Data, classes: int, p: ClassParams) -> dict[str, Any]:
    return {
        'in_channels': data.num_features,
        'hidden_channels': p.hidden_channels,
        'out_channels': classes,
        'num_layers': p.num_layers,
        'dropout': p.dropout,
    }


def _normalized(data: Data, p: ClassParams) -> dict[str, Any]:
    return {'edge_index': symmetric_adjacency(data)}


@class_network('mlp_cls', ClassParams, lambda data, p: {})
def mlp_cls(data: Data, classes: int, p: ClassParams) -> torch.nn.Module:
    """PyG's MLP, which sees no edge."""
    return MLP(**_sizes(data, classes, p))


@class_network('gcn_cls', ClassParams, _normalized)
def gcn_cls(data: Data, classes: int, p: ClassParams) -> torch.nn.Module:
    """PyG's GCN; edges are normalised once."""
    return GCN(**_sizes(data, classes, p), normalize=False)


@class_network('gcn_tuned', TunedGCNParams, _normalized)
def gcn_tuned(data: Data, classes: int, p: TunedGCNParams) -> torch.nn.Module:
    """GCN with norm, residual and a linear head."""
    return TunedGCN(
        **_sizes(data, classes, p), norm=p.norm, residual=p.residual
    )
