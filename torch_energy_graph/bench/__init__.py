"""Benchmarks: protocols, baselines, a resumable runner and its reports."""

from torch_energy_graph.bench import (
    baselines,
    classifiers,
    diffusion,
    energy,
    stacked,
    tabular,
)
from torch_energy_graph.bench.classes import (
    PerClassProtocol,
    SharesProtocol,
    StoredProtocol,
)
from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.config import (
    BenchConfig,
    Group,
    load_config,
)
from torch_energy_graph.bench.evaluation import evaluate
from torch_energy_graph.bench.filters import select
from torch_energy_graph.bench.goal import (
    ANOMALIES,
    CLASSES,
    Goal,
)
from torch_energy_graph.bench.image_training import (
    ImageConfig,
    ImageTraining,
    load_image_config,
    load_image_model,
)
from torch_energy_graph.bench.objective import LossConfig
from torch_energy_graph.bench.ood import evaluate_training
from torch_energy_graph.bench.protocol import (
    PROTOCOLS,
    GADBenchProtocol,
    InductiveProtocol,
    OfficialProtocol,
    StratifiedProtocol,
    get_protocol,
    goal_of,
)
from torch_energy_graph.bench.registry import (
    Prediction,
    Task,
    UnavailableError,
    get_model,
    load_task,
    register_dataset,
    register_model,
)
from torch_energy_graph.bench.report import write_report
from torch_energy_graph.bench.runner import (
    Summary,
    is_finished,
    plan,
    recheck,
    run,
)
from torch_energy_graph.bench.split import (
    Protocol,
    Split,
)
from torch_energy_graph.bench.store import (
    RunFolder,
    Unit,
)
from torch_energy_graph.bench.training import (
    TrainConfig,
    Training,
    load_train_config,
)
from torch_energy_graph.bench.tuning import (
    Search,
    Tuning,
)

__all__ = [
    'ANOMALIES',
    'BenchConfig',
    'CLASSES',
    'ConfigError',
    'GADBenchProtocol',
    'Goal',
    'Group',
    'ImageConfig',
    'ImageTraining',
    'InductiveProtocol',
    'LossConfig',
    'OfficialProtocol',
    'PROTOCOLS',
    'PerClassProtocol',
    'Prediction',
    'Protocol',
    'RunFolder',
    'Search',
    'SharesProtocol',
    'Split',
    'StoredProtocol',
    'StratifiedProtocol',
    'Summary',
    'Task',
    'TrainConfig',
    'Training',
    'Tuning',
    'UnavailableError',
    'Unit',
    'baselines',
    'classifiers',
    'diffusion',
    'energy',
    'evaluate',
    'evaluate_training',
    'get_model',
    'get_protocol',
    'goal_of',
    'is_finished',
    'load_config',
    'load_image_config',
    'load_image_model',
    'load_task',
    'load_train_config',
    'plan',
    'recheck',
    'register_dataset',
    'register_model',
    'run',
    'select',
    'stacked',
    'tabular',
    'write_report',
]
