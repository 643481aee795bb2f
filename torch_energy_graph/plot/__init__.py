"""Pictures: functions that draw into axes and return them."""

from torch_energy_graph.plot.figures import (
    image_figures,
    new_figure,
    png_bytes,
)
from torch_energy_graph.plot.fraud import (
    plot_class_descent,
    plot_precision_recall,
    plot_reliability,
    plot_roc,
)
from torch_energy_graph.plot.image import (
    label_columns,
    mosaic,
    plot_completion,
    plot_contributions,
    plot_descent_energy,
    plot_images,
    plot_memories,
    plot_position_similarity,
    plot_shares,
)

__all__ = [
    'image_figures',
    'label_columns',
    'mosaic',
    'new_figure',
    'plot_class_descent',
    'plot_completion',
    'plot_contributions',
    'plot_descent_energy',
    'plot_images',
    'plot_memories',
    'plot_position_similarity',
    'plot_precision_recall',
    'plot_reliability',
    'plot_roc',
    'plot_shares',
    'png_bytes',
]
