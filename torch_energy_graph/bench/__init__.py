"""Benchmarks: protocols, baselines, a resumable runner and its reports."""

from torch_energy_graph.bench import baselines, energy, stacked, tabular
from torch_energy_graph.bench.coerce import ConfigError
from torch_energy_graph.bench.config import BenchConfig, Group, load_config
from torch_energy_graph.bench.evaluation import evaluate
from torch_energy_graph.bench.filters import select
from torch_energy_graph.bench.protocol import (
    PROTOCOLS,
    GADBenchProtocol,
    InductiveProtocol,
    OfficialProtocol,
    StratifiedProtocol,
    get_protocol,
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
from torch_energy_graph.bench.split import Protocol, Split
from torch_energy_graph.bench.store import RunFolder, Unit
from torch_energy_graph.bench.tuning import Search, Tuning

__all__ = [
    'BenchConfig',
    'ConfigError',
    'GADBenchProtocol',
    'Group',
    'InductiveProtocol',
    'OfficialProtocol',
    'PROTOCOLS',
    'Prediction',
    'Protocol',
    'RunFolder',
    'Search',
    'Split',
    'StratifiedProtocol',
    'Summary',
    'Task',
    'Tuning',
    'UnavailableError',
    'Unit',
    'baselines',
    'energy',
    'evaluate',
    'get_model',
    'get_protocol',
    'is_finished',
    'load_config',
    'load_task',
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
