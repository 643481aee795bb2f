"""Fraudulent reviewers on Amazon."""

from pathlib import Path
from typing import ClassVar

from torch_energy_graph.data import FraudMat
from torch_energy_graph.datasets.fraud_mat_graph import FraudMatGraph

__all__ = ['FraudAmazon']

# nodes in the file: how many of the first have no label
_UNLABELED = {11_944: 3_305, 10_224: 2_295}


class FraudAmazon(FraudMatGraph):
    r"""Reviewers of musical instruments, some of them fraudulent.

    Published with `"Enhancing Graph Neural Network-based Fraud Detectors
    against Camouflaged Fraudsters" <https://arxiv.org/abs/2008.08692>`_ as
    ``Amazon.mat``, inside ``data/Amazon.zip`` of the repository
    ``YingtongDou/CARE-GNN``. Users are connected if they review a common
    product ('upu'), give the same stars within a week ('usu'), or write
    similar texts ('uvu'). The later file of the same name with U-P-U alone,
    10,224 nodes, is read, too; its relation is called 'network'.

    The first nodes have no label: they are -1 in :obj:`y`, though the file
    says 0.

    Args:
        root (str or Path, optional): Folder of the file; if it is not there,
            the folders of :func:`~torch_energy_graph.datasets.data_roots`
            are searched. (default: :obj:`None`)
        relations (sequence of str, optional): Relations to take, all if not
            given. (default: :obj:`None`)
        edges (str, optional): 'typed': :obj:`edge_type` :math:`[E]` numbers
            the relations. 'merged': no types; pairs of nodes in several
            relations count as often. 'simple': no types; each pair counts
            once. (default: :obj:`'typed'`)
        transform (callable, optional): Applied to the graph at each access.
            (default: :obj:`None`)

    Attributes:
        relations: Names, in the order of the types.
        splits: Masks of the family 'dgl', as ``FraudAmazonDataset`` of DGL
            draws them.

    **STATS (published):** 11,944 nodes, 9,557,648 directed edges in three
    relations, 25 features, 8,639 labelled nodes, 821 anomalies (9.5 %).
    """

    name: ClassVar[str] = 'fraud_amazon'
    places: ClassVar[tuple[str, ...]] = (
        'Amazon.mat',
        'raw/Amazon.mat',
        'FraudAmazon/Amazon.mat',
        'FraudAmazon/raw/Amazon.mat',
    )

    def _num_unlabeled(self, content: FraudMat, path: Path) -> int:
        """Known by the number of nodes; a guess would be a leak."""
        num_nodes = len(content.y)
        if num_nodes not in _UNLABELED:
            raise ValueError(
                f'expected {" or ".join(map(str, _UNLABELED))} nodes in '
                f"'{path}' (got {num_nodes}): which of them have labels is "
                f'not known; read it with read_fraud_mat and set y to -1 '
                f'where there is no label'
            )
        return _UNLABELED[num_nodes]
