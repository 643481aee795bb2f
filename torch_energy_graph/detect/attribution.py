"""Which features a score rests on, by PyG's GNNExplainer."""

import copy
from typing import Any

import torch
from torch import Tensor

from torch_geometric.data import Data
from torch_geometric.explain import Explainer, GNNExplainer

from torch_energy_graph.detect.graphs import edge_keywords
from torch_energy_graph.detect.scorer import Scorer

__all__ = ['feature_shares']


def feature_shares(
    scorer: Scorer, prepared: Data, node: int, epochs: int = 50
) -> list[float]:
    r"""Share of every feature in a mask that keeps the score of a node.

    The mask covers encoded columns, of the node and of its neighbours alike;
    a column that is masked has its mean. Columns of one feature, its bins and
    its neighbour means, are added up. The same call gives the same shares.

    Args:
        scorer (Scorer): A fitted detector.
        prepared (Data): Encoded graph around the node.
        node (int): The node.
        epochs (int, optional): Steps of the explainer. (default: :obj:`50`)

    Returns:
        list: Shares that sum to 1, :math:`[F]`.
    """
    # copies: an explainer leaves gradients behind, and changes the mode
    members = copy.deepcopy(scorer.members)
    model = _LogOdds(members, edge_keywords(prepared))
    model.eval().requires_grad_(False)
    explainer = Explainer(
        model,
        GNNExplainer(epochs=epochs, lr=0.05),
        explanation_type='model',
        node_mask_type='common_attributes',
        model_config={
            'mode': 'regression',
            'task_level': 'node',
            'return_type': 'raw',
        },
    )
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        found = explainer(prepared.x, prepared.edge_index, index=node)
    mask = found.node_mask.view(-1).double().cpu()  # [F']
    origin = scorer.inputs.origin(scorer.num_features)
    total = mask.new_zeros(scorer.num_features).index_add_(0, origin, mask)
    return [float(v) for v in total / total.sum().clamp(min=1e-12)]


class _LogOdds(torch.nn.Module):
    """Mean log odds of the members, on edges that are sorted already."""

    def __init__(self, members: list[Any], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.members = torch.nn.ModuleList(members)
        self.keywords = keywords

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """One column, [N, 1]."""
        logits = [member(x, **self.keywords) for member in self.members]
        return torch.stack(logits).mean(dim=0).unsqueeze(-1)
