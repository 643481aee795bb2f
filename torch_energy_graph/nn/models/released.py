import re
from typing import Dict, Mapping

from torch import Tensor

__all__ = ['from_released_difformer']

# names in the code that the authors of DIFFormer released, and ours
_NAMES = [
    (r'\bWq\.', 'attention.lin_query.'),
    (r'\bWk\.', 'attention.lin_key.'),
    (r'\bWv\.', 'attention.lin_value.'),
    (r'^fcs\.0\.', 'encoder.'),
    (r'^fcs\.1\.', 'head.'),
    (r'^bns\.', 'norms.'),
]


def from_released_difformer(state: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    r"""Renames the weights of DIFFormer's released code.

    For ``DIFFormer`` and ``DIFFormerConv`` of ``difformer.py``, into
    :class:`~torch_energy_graph.nn.models.DIFFormer` and
    :class:`~torch_energy_graph.nn.DIFFormerConv`. The same outputs need
    :obj:`normalize="global"` and :obj:`weighted_degree=False`, too:

    .. code-block:: python

        model = DIFFormer(
            in_channels, hidden_channels, out_channels, normalize='global',
            weighted_degree=False,
        )
        model.load_state_dict(from_released_difformer(state))

    Options by their released names: ``num_heads`` is :obj:`heads`,
    ``use_bn`` is :obj:`use_norm` (it is a layer norm), ``use_weight`` is
    :obj:`use_value`, and ``graph_weight=-1`` is :obj:`None`. The released
    code expects graphs with self-loops.

    Args:
        state (dict): The released ``state_dict``, read with
            ``weights_only=True``.

    Raises:
        ValueError: If a name is unknown.
    """
    out = {}
    for name, weight in state.items():
        new = name
        for pattern, replacement in _NAMES:
            new = re.sub(pattern, replacement, new)
        if new == name:
            raise ValueError(
                f"'from_released_difformer' does not know the weight "
                f'{name!r}; it expects the names of the released '
                f"'difformer.py', such as 'convs.0.Wq.weight'"
            )
        out[new] = weight
    return out
