"""What benchmarks/mil.py compares: networks that differ in their pooling."""

from functools import partial

import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch.nn import Identity, LayerNorm, Linear, Module, Sequential, Tanh
from torch.nn.functional import dropout

from torch_geometric.nn import (
    MLP,
    AttentionalAggregation,
    MaxAggregation,
    MeanAggregation,
    SetTransformerAggregation,
)

from torch_energy_graph.nn.models.hopfield_classifier import HopfieldClassifier
from torch_energy_graph.train.bag_folds import bag_learner
from torch_energy_graph.train.bags import BagOptions

WIDTH = 32
TRAINING = {'lr': 0.005, 'weight_decay': 0.01}
DROPOUTS = (0.2, 0.5)
COSTS = (0.001, 0.01)
ROUNDS = 5


class Pooled(Module):
    """An embedding, a pooling of PyG and a linear head, as ours has them."""

    def __init__(self, in_channels, pool, width, share=0.0, embedding=None):
        super().__init__()
        self.embedding = embedding or Identity()
        self.mlp = MLP([in_channels, width], norm=None, plain_last=False)
        self.pool = pool
        self.head = Linear(width, 2)
        self.share = share  # dropped out

    def forward(self, x, batch, batch_size):
        z = self.mlp(self.embedding(x))
        z = dropout(z, self.share, self.training)
        z = self.pool(z, batch, dim_size=batch_size)
        return self.head(dropout(z, self.share, self.training))


class Normalised(Module):
    """A pooling after the layer norm that ours begins with."""

    def __init__(self, pool):
        super().__init__()
        self.norm = LayerNorm(WIDTH)
        self.pool = pool

    def forward(self, x, *args, **kwargs):
        return self.pool(self.norm(x), *args, **kwargs)


def gate(width):
    """The attention of Ilse et al. (2018), without their second gate."""
    return Sequential(Linear(width, width), Tanh(), Linear(width, 1))


def hopfield(dataset, share, in_channels):
    return HopfieldClassifier(
        in_channels, WIDTH, heads=4, dropout=share, association_dropout=0.0
    )


def pooled(make_pool, dataset, share, in_channels):
    return Pooled(in_channels, make_pool(), WIDTH, share)


def set_transformer(dataset, share, in_channels):
    """Self-attention, unless padded bags of 1,044 make it too large."""
    encoders = 0 if dataset == 'musk2' else 1
    pool = SetTransformerAggregation(
        WIDTH, num_encoder_blocks=encoders, heads=4
    )
    return Pooled(in_channels, pool, WIDTH, share)


NETWORKS = {
    'Hopfield': hopfield,
    'attention': partial(pooled, lambda: AttentionalAggregation(gate(WIDTH))),
    'attention, layer norm': partial(
        pooled, lambda: Normalised(AttentionalAggregation(gate(WIDTH)))
    ),
    'mean': partial(pooled, MeanAggregation),
    'max': partial(pooled, MaxAggregation),
    'set transformer': set_transformer,
}
SVM = 'MI-SVM'
METHODS = (*NETWORKS, SVM)


def learners(method, dataset, epochs, seed):
    """Settings of a method, by name, of which inner folds choose."""
    if method == SVM:
        return {f'C {cost}': partial(mi_svm, cost) for cost in COSTS}
    options = BagOptions(
        epochs, eval_every=-(-epochs // 4), seed=seed, **TRAINING
    )
    return {
        f'dropout {share}': bag_learner(
            partial(NETWORKS[method], dataset, share), options
        )
        for share in DROPOUTS
    }


def described(method, dataset):
    """What decides the results of a method, ready for JSON."""
    if method == SVM:
        return [COSTS, ROUNDS]
    model = NETWORKS[method](dataset, 0.0, 1)
    shapes = {key: list(w.shape) for key, w in model.state_dict().items()}
    return [TRAINING, DROPOUTS, repr(model), shapes]


def mi_svm(cost, bags, train):
    """Andrews et al. (2003): positive bags by their highest instance.

    Those start as the mean of their bag; all instances of negative bags
    count. The score of a bag is that of its highest instance.
    """
    part = bags.select(train)
    scaler = StandardScaler().fit(part.x.numpy())
    rows = scaler.transform(part.x.numpy())
    positive = part.y.numpy() == 1
    inside = positive[part.batch.numpy()]
    pieces = np.split(rows, part.ptr[1:-1].numpy())
    pieces = [piece for piece, y in zip(pieces, positive, strict=True) if y]
    witness = np.stack([piece.mean(0) for piece in pieces])
    labels = np.repeat([1, 0], [len(witness), (~inside).sum()])
    chosen = None
    for _ in range(ROUNDS):
        svm = LinearSVC(C=cost, class_weight='balanced', dual='auto')
        svm.fit(np.concatenate([witness, rows[~inside]]), labels)
        best = [svm.decision_function(piece).argmax() for piece in pieces]
        if best == chosen:
            break
        chosen = best
        witness = np.stack(
            [piece[i] for piece, i in zip(pieces, best, strict=True)]
        )
    height = svm.decision_function(scaler.transform(bags.x.numpy()))
    return np.maximum.reduceat(height, bags.ptr[:-1].numpy())[None]
