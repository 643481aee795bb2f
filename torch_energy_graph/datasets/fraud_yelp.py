"""Spam reviews on Yelp."""

from typing import ClassVar

from torch_energy_graph.datasets.fraud_mat_graph import FraudMatGraph

__all__ = ['FraudYelp']


class FraudYelp(FraudMatGraph):
    r"""Reviews of hotels and restaurants, some of them spam (YelpChi).

    Published with `"Enhancing Graph Neural Network-based Fraud Detectors
    against Camouflaged Fraudsters" <https://arxiv.org/abs/2008.08692>`_ as
    ``YelpChi.mat``, inside ``data/YelpChi.zip`` of the repository
    ``YingtongDou/CARE-GNN``. Reviews are connected if they are by the same
    user ('rur'), rate the same product with the same stars ('rsr'), or the
    same product in the same month ('rtr').

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
        splits: Masks of the family 'dgl', as ``FraudYelpDataset`` of DGL
            draws them.

    **STATS (published):** 45,954 nodes, 8,051,348 directed edges in three
    relations, 32 features, 6,677 anomalies (14.5 %).
    """

    name: ClassVar[str] = 'fraud_yelp'
    places: ClassVar[tuple[str, ...]] = (
        'YelpChi.mat',
        'raw/YelpChi.mat',
        'FraudYelp/YelpChi.mat',
        'FraudYelp/raw/YelpChi.mat',
    )
