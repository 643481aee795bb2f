"""How the energy of two kinds of nodes falls."""

import copy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.detect.graphs import edge_keywords
from torch_energy_graph.detect.scorer import Scorer

__all__ = ['energy_descent']


@torch.no_grad()
def energy_descent(
    scorer: Scorer, prepared: Data, kinds: Tensor, num_steps: int
) -> NDArray[np.float64]:
    r"""Mean energy per node and kind after every step, mean of the networks.

    Args:
        scorer (Scorer): A fitted detector.
        prepared (Data): Encoded graph.
        kinds (Tensor): 0, 1, or -1 for nodes to leave out, :math:`[N]`.
        num_steps (int): Number of steps T, of the trained size; may be more
            than the networks were trained with.

    Returns:
        ndarray: :math:`[T + 1, 2]`, NaN for a kind without nodes.
    """
    keywords = edge_keywords(prepared)
    group = torch.where(kinds < 0, 2, kinds).to(prepared.x.device)
    total = np.zeros((num_steps + 1, 2))
    for member in scorer.members:
        block = copy.deepcopy(member.block)
        block.num_steps = num_steps
        _, trace = block(
            member.embed(prepared.x),
            **keywords,
            batch=group,
            batch_size=3,
            return_trace=True,
        )
        total += trace.energy[:, :2].double().cpu().numpy()
    count = np.array([int((kinds == kind).sum()) for kind in (0, 1)], float)
    count[count == 0] = np.nan
    mean: NDArray[np.float64] = total / count / len(scorer.members)
    return mean
