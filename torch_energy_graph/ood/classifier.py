r"""Scores of a classifier's own energy.

One rule of signs: **energy low, score high = in-distribution**. Scores of an
input, from its logits f and energy E at temperature T:

- ``energy``: :math:`-E = T \log \sum_k e^{f_k / T}` (Liu et al. 2020)
- ``max_prob``: :math:`\max_k p(k | x)` (Hendrycks and Gimpel 2017)
- ``approx_mass``: :math:`-\lVert \partial \log p(x) / \partial x \rVert_2`
  (Grathwohl et al. 2020), the gradient of :math:`-\sum E / T`. Its
  direction is no promise: on citation graphs known nodes have the *larger*
  gradients. Look at validation data before using it.
- ``propagated``: the energy after :class:`EnergyPropagation` over the edges
  (Wu et al. 2023); better than ``energy`` where neighbours are alike, worse
  where they are not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torch_energy_graph.energies.classifier import free_energy

from .calls import checked_logits
from .gradients import energy_gradient, row_norms
from .propagation import EnergyPropagation

__all__ = ['SCORES', 'EnergyClassifier', 'OutlierDetector']

SCORES = ('energy', 'max_prob', 'approx_mass', 'propagated')


class EnergyClassifier(Module):
    r"""Reads energies from any module that returns logits.

    Logits may be those of nodes, graphs or images; every method takes what
    the model takes. Nothing is added to the model, and :meth:`forward` is
    its own. Put it into eval mode before scoring, as for predictions.

    Args:
        model (torch.nn.Module): Classifier, returns logits :math:`[N, K]`.
        temperature (float, optional): :math:`T > 0` of all energies and
            probabilities, such as of
            :func:`~torch_energy_graph.ood.fit_temperature`.
            (default: :obj:`1.0`)
        multi_label (bool, optional): Labels that may hold together.
            (default: :obj:`False`)
        propagation (EnergyPropagation, optional): That of the score
            :obj:`"propagated"`. (default: 2 layers, :math:`\alpha = 1/2`)

    Example:
        >>> model = EnergyClassifier(GCN(16, 32, 2, 7)).eval()
        >>> score = model.score(x, edge_index, kind='propagated')
    """

    def __init__(
        self,
        model: Module,
        temperature: float = 1.0,
        multi_label: bool = False,
        propagation: EnergyPropagation | None = None,
    ) -> None:
        super().__init__()
        if not 0 < temperature < float('inf'):
            raise ValueError(
                f"'EnergyClassifier' expects temperature > 0 (got "
                f'{temperature})'
            )
        self.model = model
        self.temperature = temperature
        self.multi_label = multi_label
        self.propagation = propagation or EnergyPropagation()

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the logits of the model."""
        return self.model(*args, **kwargs)

    def energy(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the energies :math:`[N]`, with their gradients.

        Raises:
            ValueError: If the model returns log-probabilities, or no
                :math:`[N, K]`.
        """
        return self._energy(self.model(*args, **kwargs))

    def log_density(self, *args: Any, **kwargs: Any) -> Tensor:
        r"""Return :math:`\log p(x) + \log Z = -E / T`, :math:`[N]`.

        The constant Z is unknown, but the same for all inputs of the model.
        """
        return -self.energy(*args, **kwargs) / self.temperature

    def score(self, *args: Any, kind: str = 'energy', **kwargs: Any) -> Tensor:
        """Return scores, high for known inputs, without gradients.

        Args:
            *args: What the model takes. :obj:`"approx_mass"` differentiates
                the first, :obj:`"propagated"` takes the edges from the second
                or from :obj:`edge_index`.
            kind (str, optional): :obj:`"energy"`, :obj:`"max_prob"`,
                :obj:`"approx_mass"` or :obj:`"propagated"`.
                (default: :obj:`"energy"`)
            **kwargs: What the model takes by name; :obj:`batch` tells the
                graph of every node, if logits are those of graphs.

        Returns:
            Tensor: :math:`[N]`, one per row of the logits.

        Raises:
            ValueError: As :meth:`energy`, and if there is no such score.
        """
        if kind not in SCORES:
            raise ValueError(f"'kind' must be one of {SCORES} (got {kind!r})")
        if kind == 'approx_mass':
            return self._approx_mass(*args, **kwargs)
        with torch.no_grad():
            logits = self.model(*args, **kwargs)
            energy = self._energy(logits)
            if kind == 'energy':
                return -energy
            if kind == 'max_prob':
                scaled = logits.to(energy.dtype) / self.temperature
                if self.multi_label:
                    return scaled.sigmoid().amax(-1)
                return scaled.softmax(-1).amax(-1)
            return -self.propagation(energy, _edges(args, kwargs, energy))

    def detector(self, kind: str = 'energy') -> OutlierDetector:
        """Return a detector with the opposite sign, that of pytorch-ood."""
        return OutlierDetector(self, kind)

    def _energy(self, logits: Tensor) -> Tensor:
        checked_logits(logits, self.multi_label)
        return free_energy(logits, self.temperature, self.multi_label)

    def _approx_mass(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self._energy(self.model(x, *args, **kwargs))
            grad = energy_gradient(energy, x) / self.temperature
        return -row_norms(grad, energy.size(0), kwargs.get('batch'))

    def __repr__(self) -> str:
        return (
            f'{type(self).__name__}({type(self.model).__name__}, '
            f'temperature={self.temperature:g})'
        )


class OutlierDetector:
    """Scores with the opposite sign: high = outlier.

    Callable as the detectors of pytorch-ood are, whose metrics expect this
    sign; :meth:`fit` has nothing to learn.

    Args:
        classifier (EnergyClassifier): Whose scores to negate.
        kind (str, optional): As in :meth:`EnergyClassifier.score`.
            (default: :obj:`"energy"`)
    """

    def __init__(
        self, classifier: EnergyClassifier, kind: str = 'energy'
    ) -> None:
        if kind not in SCORES:
            raise ValueError(f"'kind' must be one of {SCORES} (got {kind!r})")
        self.classifier = classifier
        self.kind = kind

    def fit(self, *_: Any, **__: Any) -> OutlierDetector:
        """Return the detector as it is."""
        return self

    def predict(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return outlier scores :math:`[N]` of what the model takes."""
        return -self.classifier.score(*args, kind=self.kind, **kwargs)

    __call__ = predict


def _edges(args: Any, kwargs: Any, energy: Tensor) -> Any:
    """The edges of a call, if the energies are those of its nodes."""
    edges = kwargs.get('edge_index', args[1] if len(args) > 1 else None)
    if edges is None or energy.size(0) != args[0].size(0):
        raise ValueError(
            "the score 'propagated' needs a model of nodes and their edges, "
            'score(x, edge_index)'
        )
    return edges
