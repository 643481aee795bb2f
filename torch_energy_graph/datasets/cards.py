"""What one has to know about a dataset before using it."""

__all__ = ['GADBENCH_NOTES', 'GADBENCH_ORIGIN', 'NOTES', 'ORIGINS']

_FRAUD_LICENCE = (
    'no licence stated for the data; CARE-GNN is Apache-2.0, the reviews are '
    'for research use'
)
_BWGNN = 'BWGNN, arXiv:2205.15508; file of dgl.save_graphs'
GADBENCH_ORIGIN = (
    'GADBench, arXiv:2306.12251; file of dgl.save_graphs',
    'none stated; data of the original sources',
)
GADBENCH_NOTES = (
    'self-loops are in the file: remove them before a layer adds its own',
    "split family 'gadbench': columns 0-9 fully supervised, 10-19 with 100 "
    'training nodes',
    'nodes outside of all masks are unlabelled (y = -1)',
)
_RELATIONS = (
    "relations are typed edges; merged, they hold parallel edges: 'edges' "
    'chooses, and the choice changes scores'
)
_SINGLE_RELATION = (
    'one of three relations, isolated nodes dropped: scores are not '
    'comparable with papers that use all relations'
)
_SET = "no edges; with '_knn' behind the name, those to the 5 nearest items"
NOTES: dict[str, tuple[str, ...]] = {
    'digits_outlier': (
        'one class of the 8x8 digits thinned to rare anomalies, kNN graph of '
        'noisy images; no stored splits',
    ),
    'digits': (_SET,),
    'mnist': ('the 10,000 test images alone', _SET),
    '20news10': (
        'ten of the twenty newsgroups, words in at least 5 % of the texts, as '
        'in the DIFFormer paper',
        _SET,
    ),
    'amazon_fraud_upu': (
        _SINGLE_RELATION + ' (U-P-U)',
        'nodes outside labeled_mask are unlabelled (y = -1): never train or '
        'evaluate on them',
        'labels are a function of helpful votes, which are also features',
    ),
    'yelpchi_rur': (
        _SINGLE_RELATION + ' (R-U-R)',
        'node order clusters by label: use random stratified splits only',
        '99.6 % of the edges connect the same label',
    ),
    'tolokers': (
        "split family 'gadbench' follows the GADBench recipe, its masks "
        'could not be compared with the GADBench files',
    ),
    'reddit': (
        'holds one self-loop per node: remove them before a layer adds its '
        'own',
        "split family 'gadbench' follows the GADBench recipe, its masks "
        'could not be compared with the GADBench files',
    ),
    'books': ('28 anomalies; edges were directed in the source',),
    'disney': (
        '124 nodes, 6 anomalies: for smoke tests, scores are mostly chance; '
        'edges were directed in the source',
    ),
    'minesweeper': (
        'synthetic: 20 % anomalies on a grid, decided by the neighbours',
    ),
    'inj_cora': (
        'injected outliers: outlier_type 1 contextual, 2 structural, 3 both',
        'official masks are those of Cora: few anomalies in train',
    ),
    'gen_500': (
        'generated outliers: outlier_type 1 contextual, 2 structural',
        '20 anomalies, 3 isolated nodes: for smoke tests',
    ),
    'fraud_yelp': (
        _RELATIONS,
        "split family 'dgl' is the one split of DGL",
    ),
    'fraud_amazon': (
        _RELATIONS,
        'the first 3,305 nodes are unlabelled (y = -1), though the file says '
        '0: never train or evaluate on them',
        'labels are a function of helpful votes, which are also features',
        "split family 'dgl' is the one split of DGL",
    ),
    'tfinance': (
        'the meaning of the features is not published',
        "GADBench's file of the same name has self-loops and stored splits, "
        'the original has neither',
    ),
    'tsocial': (
        'the meaning of the features is not published',
        'by far the largest of these graphs: plan for the memory',
    ),
    'elliptic': (
        'most nodes have no label (y = -1)',
        "split family 'official' goes by time: test starts at step 35, the "
        'steps 26-34 validate as in GADBench',
        'random splits mix time steps, and so leak the future',
    ),
    'dgraphfin': (
        'background users are nodes without label (y = -1)',
        'edges are directed; absent features are stored as -1',
        'anomalies are very rare: a threshold of 0.5 finds none',
    ),
}

# source and licence of graphs whose files do not say it
ORIGINS: dict[str, tuple[str, str]] = {
    'digits_outlier': (
        'scikit-learn (UCI optical recognition of digits)',
        'scikit-learn BSD-3-Clause; data CC BY 4.0',
    ),
    'digits': (
        'scikit-learn (UCI optical recognition of digits)',
        'scikit-learn BSD-3-Clause; data CC BY 4.0',
    ),
    'mnist': ('MNIST, LeCun and Cortes', 'CC BY-SA 3.0'),
    '20news10': (
        '20 Newsgroups by date; CountVectorizer and TfidfTransformer of '
        'scikit-learn',
        'none stated (public Usenet posts)',
    ),
    'fraud_yelp': ('CARE-GNN, data/YelpChi.zip', _FRAUD_LICENCE),
    'fraud_amazon': ('CARE-GNN, data/Amazon.zip', _FRAUD_LICENCE),
    'tfinance': (_BWGNN, 'none stated'),
    'tsocial': (_BWGNN, 'none stated'),
    'elliptic': (
        'Elliptic, arXiv:1908.02591; csv files, also of PyG',
        'see the terms of the publisher',
    ),
    'dgraphfin': (
        'DGraph, arXiv:2207.03579; dgraph.xinye.com',
        'see the terms of the publisher',
    ),
    **{
        name: ('yandex-research/heterophilous-graphs, arXiv:2302.11640', 'MIT')
        for name in (
            'amazon_ratings',
            'minesweeper',
            'questions',
            'roman_empire',
            'tolokers',
        )
    },
}
