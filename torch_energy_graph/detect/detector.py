"""From a graph or tables to calibrated probabilities and decisions."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from torch import Tensor

from torch_geometric.data import Data

from torch_energy_graph.data import GraphTable, check_graph
from torch_energy_graph.data.tables.table import require_pandas
from torch_energy_graph.detect.calibration import (
    Method,
    check_method,
    fit_calibration,
    log_odds,
    probability_quality,
)
from torch_energy_graph.detect.ensemble import fit_ensemble
from torch_energy_graph.detect.explain import Explanation, explain_node
from torch_energy_graph.detect.graphs import (
    check_graph_like,
    labelled,
    node_ids,
    read_fields,
    split_masks,
    training_graph,
)
from torch_energy_graph.detect.inputs import Encoding
from torch_energy_graph.detect.scorer import Scorer
from torch_energy_graph.detect.storage import load_detector, save_detector
from torch_energy_graph.detect.threshold import (
    Target,
    as_target,
    decision_report,
)
from torch_energy_graph.metrics import auprc

__all__ = ['EnergyFraudDetector']

Graph: TypeAlias = Data | GraphTable
Floats = NDArray[np.float64]
Path_: TypeAlias = str | os.PathLike[str]


class EnergyFraudDetector(ClassifierMixin, BaseEstimator):
    r"""Finds anomalous nodes: an estimator in the style of scikit-learn.

    An ensemble of
    :class:`~torch_energy_graph.nn.models.EnergyAnomalyDetector` on the
    features and their neighbour means. Training stops by the AUPRC of
    validation nodes; these also give the calibration of the probabilities and
    the threshold of decisions. The default settings are
    those of the benchmark's entry ``et``.

    A graph is a PyG :class:`~torch_geometric.data.Data` with :obj:`x`,
    :obj:`edge_index` and, to fit, :obj:`y` (0 normal, 1 anomalous, -1
    unknown); :obj:`edge_type` and :obj:`edge_attr` are read if present, other
    fields are not. Or it is a :class:`~torch_energy_graph.data.GraphTable`,
    for which a preprocessing is fitted and kept.

    A fitted detector scores any graph of the same kind: new nodes and edges
    need no new training. Labels are never read for that.

    Args:
        hidden_channels (int, optional): Width. (default: :obj:`64`)
        embedding_layers (int, optional): Layers of the embedding.
            (default: :obj:`2`)
        heads (int, optional): Attention heads. (default: :obj:`4`)
        num_memories (int, optional): Memories, 4 times the width if
            :obj:`None`. (default: :obj:`None`)
        num_steps (int, optional): Steps down the energy. (default: :obj:`1`)
        step_size (float or str, optional): A number, "learn" or "auto".
            (default: :obj:`0.1`)
        beta (float or str, optional): Inverse temperature of the attention,
            a number or "learn". (default: :obj:`None`)
        dropout (float, optional): Dropout. (default: :obj:`0.3`)
        relations (bool, optional): Whether each relation has an attention of
            its own. (default: :obj:`True`)
        edge_features (bool, optional): Whether edge features bias the
            attention. (default: :obj:`True`)
        hops (int, optional): Neighbour means beside the features.
            (default: :obj:`2`)
        encoding (str, optional): Of features: "raw", "standard", "normal" or
            "piecewise". (default: :obj:`"piecewise"`)
        bins (int, optional): Bins of "piecewise". (default: :obj:`8`)
        lr (float, optional): Learning rate. (default: :obj:`0.003`)
        weight_decay (float, optional): L2 penalty. (default: :obj:`0.0001`)
        balance (float, optional): Anomalies weigh (normal / anomalous
            training nodes) to this power. (default: :obj:`0.0`)
        clip_norm (float, optional): Upper bound of the gradient norm.
            (default: :obj:`1.0`)
        epochs (int, optional): Upper bound of epochs. (default: :obj:`40`)
        eval_every (int, optional): Epochs between two evaluations.
            (default: :obj:`2`)
        patience (int, optional): Evaluations without a better validation
            AUPRC after which to stop. (default: :obj:`4`)
        num_parts (int or str, optional): Random parts of an epoch, 1 for the
            full graph; "auto" means 8, as in the benchmark, more if a step
            would not fit into memory, fewer for graphs below 256 nodes.
            (default: :obj:`"auto"`)
        max_memory_gib (float, optional): What "auto" may plan with; half of
            what is free if :obj:`None`. (default: :obj:`None`)
        ensemble (int, optional): Number of networks. (default: :obj:`3`)
        calibration (str, optional): "sigmoid", "temperature", "isotonic" or
            :obj:`None`. (default: :obj:`"sigmoid"`)
        threshold (str, float or target, optional): "macro_f1", a fixed
            number, or a target: :class:`MacroF1`, :class:`FBeta`,
            :class:`CostMatrix`, :class:`TopK`, :class:`AlertBudget`.
            (default: :obj:`"macro_f1"`)
        val_size (float, optional): Share of the training nodes to validate
            on, if no validation nodes are given. (default: :obj:`0.25`)
        random_state (int, optional): Seed of all that is random.
            (default: :obj:`0`)
        device (str, optional): Device of the networks.
            (default: :obj:`"cpu"`)

    Attributes:
        classes_: The classes, 0 and 1.
        threshold_: :meth:`predict` flags nodes whose calibrated probability
            is at least this.
        validation_: What the threshold does on validation nodes (see
            :func:`decision_report`), and their AUPRC.
        history_: One record per evaluation and network.
        n_features_in_: Number of node features.
        num_parts_: Parts of an epoch, 1 for the full graph.
        preprocessing_: Of tables; :obj:`None` if fitted on a graph.
    """

    def __init__(
        self,
        hidden_channels: int = 64,
        embedding_layers: int = 2,
        heads: int = 4,
        num_memories: int | None = None,
        num_steps: int = 1,
        step_size: float | Literal['auto', 'learn'] = 0.1,
        beta: float | Literal['learn'] | None = None,
        dropout: float = 0.3,
        relations: bool = True,
        edge_features: bool = True,
        hops: int = 2,
        encoding: Encoding = 'piecewise',
        bins: int = 8,
        lr: float = 0.003,
        weight_decay: float = 0.0001,
        balance: float = 0.0,
        clip_norm: float | None = 1.0,
        epochs: int = 40,
        eval_every: int = 2,
        patience: int | None = 4,
        num_parts: int | Literal['auto'] = 'auto',
        max_memory_gib: float | None = None,
        ensemble: int = 3,
        calibration: Method = 'sigmoid',
        threshold: float | Literal['macro_f1'] | Target = 'macro_f1',
        val_size: float = 0.25,
        random_state: int = 0,
        device: str = 'cpu',
    ) -> None:
        self.hidden_channels = hidden_channels
        self.embedding_layers = embedding_layers
        self.heads = heads
        self.num_memories = num_memories
        self.num_steps = num_steps
        self.step_size = step_size
        self.beta = beta
        self.dropout = dropout
        self.relations = relations
        self.edge_features = edge_features
        self.hops = hops
        self.encoding = encoding
        self.bins = bins
        self.lr = lr
        self.weight_decay = weight_decay
        self.balance = balance
        self.clip_norm = clip_norm
        self.epochs = epochs
        self.eval_every = eval_every
        self.patience = patience
        self.num_parts = num_parts
        self.max_memory_gib = max_memory_gib
        self.ensemble = ensemble
        self.calibration = calibration
        self.threshold = threshold
        self.val_size = val_size
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        data: Graph,
        train_mask: Tensor | None = None,
        val_mask: Tensor | None = None,
        checkpoint: Path_ | None = None,
        progress: Callable[[dict[str, Any]], None] | None = None,
    ) -> 'EnergyFraudDetector':
        r"""Learn from the labelled nodes of a graph.

        Args:
            data (Data or GraphTable): The graph. All its nodes and edges are
                seen, labels only within the masks.
            train_mask (Tensor, optional): Training nodes, bool :math:`[N]`;
                if :obj:`None`, :obj:`data.train_mask` or, without one, all
                labelled nodes. Unlabelled nodes of it are left out.
            val_mask (Tensor, optional): Validation nodes, bool :math:`[N]`;
                if :obj:`None`, :obj:`data.val_mask` or, without one, a
                stratified share :obj:`val_size` of the training nodes.
            checkpoint (str or PathLike, optional): Folder of finished
                networks. A fit that was stopped, in whatever way, goes on
                from there and ends in the same state. (default: :obj:`None`)
            progress (callable, optional): Called with every record of
                ``history_`` when it is made. (default: :obj:`None`)

        Raises:
            ValueError: If the graph, a mask or a setting cannot be used.
            FloatingPointError: If training diverges.
        """
        target = as_target(self.threshold)
        check_method(self.calibration)
        check_graph_like(data)
        if isinstance(data, Data):
            check_graph(data)
        train, val = split_masks(
            data, train_mask, val_mask, self.val_size, self.random_state
        )
        given = training_graph(
            data, train, val, self.relations, self.edge_features
        )
        folder = None if checkpoint is None else Path(checkpoint)
        fitted = fit_ensemble(
            self, given.graph, train, val, given.relations, folder, progress
        )
        y = given.graph.y[val].cpu().numpy()
        seen = fitted.scores[val.numpy()]
        scorer = fitted.scorer
        scorer.calibration = fit_calibration(self.calibration, y, seen)
        prob = scorer.calibration(seen)
        self.scorer_ = scorer
        self.preprocessing_ = given.preprocessing
        self.classes_ = np.array([0, 1])
        self.n_features_in_ = scorer.num_features
        self.num_parts_ = fitted.num_parts
        self.history_ = fitted.history
        self.threshold_ = (
            target if isinstance(target, float) else target.choose(y, prob)
        )
        self.validation_ = {
            **decision_report(y, prob, self.threshold_),
            'auprc': auprc(y, prob),
            **probability_quality(y, prob),
        }
        return self

    def predict_proba(self, data: Graph) -> Floats:
        """Calibrated probabilities of normal and anomalous, [N, 2]."""
        prob = self._fitted.calibration(self._members(data).mean(axis=0))
        return np.stack([1 - prob, prob], axis=1)

    def decision_function(self, data: Graph) -> Floats:
        """Log odds of an anomaly before calibration, [N]."""
        return log_odds(self._members(data).mean(axis=0))

    def predict(
        self, data: Graph, threshold: float | None = None
    ) -> NDArray[np.int64]:
        """Decisions, 1 for anomalous, [N].

        Args:
            data (Data or GraphTable): The graph.
            threshold (float, optional): Least calibrated probability to
                flag; ``threshold_`` if :obj:`None`. (default: :obj:`None`)
        """
        prob = self.predict_proba(data)[:, 1]
        least = self.threshold_ if threshold is None else threshold
        return (prob >= least).astype(np.int64)

    def predict_std(self, data: Graph) -> Floats:
        """How far the networks disagree: deviation of probabilities, [N]."""
        return self._members(data).std(axis=0)

    def score_samples(self, data: Graph) -> Floats:
        """Minus the energy of every node after the descent, [N].

        High means consistent with neighbours and memories. That is no score
        of fraud: rare patterns can be learned as well as common ones.
        """
        scorer = self._fitted
        return -scorer.energies(scorer.prepare(self._graph(data)))

    def score(self, data: Graph, mask: ArrayLike | None = None) -> float:
        """AUPRC of labelled nodes.

        Args:
            data (Data or GraphTable): Graph with labels.
            mask (array_like, optional): Nodes to score, bool [N]; all
                labelled ones if :obj:`None`. (default: :obj:`None`)
        """
        y, nodes = labelled(data, mask)
        area = auprc(y, self.predict_proba(data)[nodes, 1])
        if area is None:
            raise ValueError('expected normal and anomalous nodes to score')
        return area

    def calibration_report(
        self, data: Graph, mask: ArrayLike | None = None
    ) -> dict[str, dict[str, float]]:
        """Errors of the probabilities of labelled nodes.

        See :func:`~torch_energy_graph.detect.probability_quality`.

        Args:
            data (Data or GraphTable): The graph, with labels.
            mask (array_like, optional): Nodes to look at, bool [N]; all
                labelled ones if :obj:`None`. (default: :obj:`None`)

        Returns:
            dict: ``before`` and ``after`` calibration.
        """
        y, nodes = labelled(data, mask)
        raw = self._members(data).mean(axis=0)[nodes]
        calibrated = self._fitted.calibration(raw)
        return {
            'before': probability_quality(y, raw),
            'after': probability_quality(y, calibrated),
        }

    def score_table(self, data: Graph) -> Any:
        """Id, probability, decision, uncertainty and energy of every node.

        Returns:
            pandas.DataFrame: One row per node, in the order of the graph.
        """
        scorer = self._fitted
        prepared = scorer.prepare(self._graph(data))
        members = scorer.member_probabilities(prepared)
        prob = scorer.calibration(members.mean(axis=0))
        columns = {
            'id': node_ids(data),
            'probability': prob,
            'flagged': prob >= self.threshold_,
            'std': members.std(axis=0),
            'energy': scorer.energies(prepared),
        }
        return require_pandas().DataFrame(columns)

    def explain(
        self, data: Graph, node: Any, top: int = 10, features: bool = True
    ) -> Explanation:
        """Reasons for the score of one node.

        Args:
            data (Data or GraphTable): The graph.
            node (Any): Id of the node, or its number if the graph has no
                ids.
            top (int, optional): Neighbours whose absence is evaluated.
                (default: :obj:`10`)
            features (bool, optional): Whether to attribute to features,
                which trains an explainer. (default: :obj:`True`)
        """
        scorer, graph, ids = self._fitted, self._graph(data), node_ids(data)
        names = None
        if self.preprocessing_ is not None:
            names = self.preprocessing_.feature_names_
        return explain_node(scorer, graph, ids, node, top, features, names)

    def save(self, folder: Path_) -> None:
        """Write weights (safetensors) and the rest (JSON) into a folder.

        Nothing in it can be executed. The files are replaced as a whole.
        """
        save_detector(self, self._fitted, Path(folder))

    @classmethod
    def load(
        cls, folder: Path_, device: str | None = None
    ) -> 'EnergyFraudDetector':
        """Read what :meth:`save` wrote; scores are equal to the last bit.

        Args:
            folder (str or PathLike): The folder.
            device (str, optional): Device; the stored one if :obj:`None`.
                (default: :obj:`None`)

        Raises:
            FileNotFoundError: If there is no detector.
            ValueError: If a file is damaged, changed, or of another version.
        """
        return load_detector(cls, Path(folder), device)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, 'scorer_')

    @property
    def _fitted(self) -> Scorer:
        if not hasattr(self, 'scorer_'):
            raise NotFittedError(
                "'EnergyFraudDetector' is not fitted; call fit(data) or "
                'EnergyFraudDetector.load(folder) first'
            )
        scorer: Scorer = self.scorer_
        return scorer

    def _members(self, data: Graph) -> Floats:
        scorer = self._fitted
        return scorer.member_probabilities(scorer.prepare(self._graph(data)))

    def _graph(self, data: Graph) -> Data:
        """The fields of a graph that are read, in their fitted form."""
        check_graph_like(data)
        if isinstance(data, GraphTable):
            if self.preprocessing_ is None:
                raise ValueError(
                    "'EnergyFraudDetector' was fitted on a graph (Data), not "
                    'on tables; transform the tables as the graph was'
                )
            data = self.preprocessing_.transform(data)
        return read_fields(data, self.relations, self.edge_features)
